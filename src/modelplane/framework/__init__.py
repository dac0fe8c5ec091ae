"""Filter, score, pick: the plugin framework of both schedulers.

A *profile* holds any filters, weighted scorers and exactly one picker. A run calls every filter for every candidate,
scores the admitted candidates, and lets the picker rank them. The framework does not know what a candidate is: the
fleet scheduler passes groups of node pools, the endpoint picker passes endpoints.

Refused and broken never share a type. A refusal is a value with a code and numbers; a plugin that raises, or that
scores outside [0, 1], is a defect and surfaces as `PluginFault` with the plugin's name.

A run reports each step to a `Reporter` if it has one. Without one it builds no text.
"""

from modelplane.framework.cycle_state import CycleState, StateKey
from modelplane.framework.faults import PluginFault, ProfileError
from modelplane.framework.outcomes import Refusal, RefusalCode, RunOutcome
from modelplane.framework.plugins import (
    Filter,
    MetricScorer,
    OrderingPicker,
    Picker,
    RelativeMetricScorer,
    Reporter,
    Scored,
    Scorer,
    SetFilter,
    TieBreakingPicker,
    Weighted,
)
from modelplane.framework.profile import Profile, Result, admit, make_profile
from modelplane.framework.reporters import MultiReporter, StepRecorder
from modelplane.framework.runner import Runner
from modelplane.framework.sparse_vector import SparseVector, zeros

__all__ = [
    "CycleState",
    "Filter",
    "MetricScorer",
    "MultiReporter",
    "OrderingPicker",
    "Picker",
    "PluginFault",
    "Profile",
    "ProfileError",
    "Refusal",
    "RefusalCode",
    "RelativeMetricScorer",
    "Reporter",
    "Result",
    "RunOutcome",
    "Runner",
    "Scored",
    "Scorer",
    "SetFilter",
    "SparseVector",
    "StateKey",
    "StepRecorder",
    "TieBreakingPicker",
    "Weighted",
    "admit",
    "make_profile",
    "zeros",
]
