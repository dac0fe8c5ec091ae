"""The plugin types of flow control, by the names that configuration uses.

Which requests are evicted, and in what order, is one rule (`eviction`); its two names may be listed and change nothing.
"""

from modelplane.epp.flowcontrol.fairness import RoundRobin, Strict, TokenFair, TokenFairParameters
from modelplane.epp.flowcontrol.least_served import LeastServed, LeastServedParameters
from modelplane.epp.flowcontrol.ordering import EarliestDeadline, EarliestGoal, FirstCome
from modelplane.epp.flowcontrol.usage import Holdback, HoldbackParameters, SoftReflective, Static, StaticParameters
from modelplane.framework.registry import NoParameters, declared_type, plugin_type

FAIRNESS, ORDERING, USAGE_LIMIT = "fairness", "ordering", "usage limit"

TYPES = (
    plugin_type("global-strict-fairness-policy", Strict, NoParameters).serving_as(FAIRNESS),
    plugin_type("round-robin-fairness-policy", RoundRobin, NoParameters).serving_as(FAIRNESS),
    plugin_type("token-fair-fairness-policy", TokenFair, TokenFairParameters).serving_as(FAIRNESS),
    plugin_type("program-aware-fairness", LeastServed, LeastServedParameters).serving_as(FAIRNESS),
    plugin_type("fcfs-ordering-policy", FirstCome, NoParameters).serving_as(ORDERING),
    plugin_type("edf-ordering-policy", EarliestDeadline, NoParameters).serving_as(ORDERING),
    plugin_type("slo-deadline-ordering-policy", EarliestGoal, NoParameters).serving_as(ORDERING),
    plugin_type("static-usage-limit-policy", Static, StaticParameters).serving_as(USAGE_LIMIT),
    plugin_type("priority-holdback-policy", Holdback, HoldbackParameters).serving_as(USAGE_LIMIT),
    plugin_type("soft-reflective-ceiling-policy", SoftReflective, NoParameters).serving_as(USAGE_LIMIT),
    declared_type("eviction-sheddable-filter", "eviction"),
    declared_type("eviction-priority-then-time-ordering", "eviction"),
)
