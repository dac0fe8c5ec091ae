"""What an author of a plugin for the endpoint picker imports. docs/picker-plugins.md has an example of each kind.

A plugin is any object with a `name` and the methods of its protocol; it inherits from nothing. `plugin_type` gives its
class a name for configurations, and an entry point of the group `modelplane.epp.plugins` names the types of a package.
What is listed here stays compatible within a minor version. Everything else is private.
"""

from modelplane.api.errors import InputError
from modelplane.epp.flowcontrol.fairness import BandQueue, FairnessPolicy
from modelplane.epp.flowcontrol.items import FlowItem
from modelplane.epp.flowcontrol.ordering import OrderingPolicy
from modelplane.epp.flowcontrol.queues import FlowQueue
from modelplane.epp.flowcontrol.saturation import SaturationDetector
from modelplane.epp.flowcontrol.usage import UsageLimitPolicy
from modelplane.epp.scheduling.context import Profiles, SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint, Role
from modelplane.epp.scheduling.metrics import Adapters, EndpointMetrics
from modelplane.epp.scheduling.outcomes import OtherModel, Outcome
from modelplane.epp.scheduling.parsed import Parsed
from modelplane.epp.scheduling.plugins import (
    Admitter,
    DataSource,
    Decider,
    EndpointsChanged,
    Parser,
    PreRequest,
    Producer,
    ProfileHandler,
    ProfilesValidator,
    Replayable,
    ResponseComplete,
    ResponseHeaders,
    ResponseReceived,
    ShadowProfiles,
)
from modelplane.epp.scheduling.requests import InferenceApi, Request
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.results import decision_from
from modelplane.epp.scheduling.units import Duration
from modelplane.framework import (
    Filter,
    MetricScorer,
    OrderingPicker,
    Picker,
    Refusal,
    RefusalCode,
    RelativeMetricScorer,
    Result,
    RunOutcome,
    Scored,
    Scorer,
    SetFilter,
    SparseVector,
    StateKey,
    TieBreakingPicker,
)
from modelplane.framework.registry import Handle, NoParameters, Parameters, PluginType, linked_type, plugin_type

__all__ = [
    "Adapters",
    "Admitter",
    "BandQueue",
    "DataSource",
    "Decider",
    "Decision",
    "Duration",
    "Endpoint",
    "EndpointMetrics",
    "EndpointResponse",
    "EndpointsChanged",
    "FairnessPolicy",
    "Filter",
    "FlowItem",
    "FlowQueue",
    "Handle",
    "InferenceApi",
    "InputError",
    "MetricScorer",
    "NoParameters",
    "OrderingPicker",
    "OrderingPolicy",
    "OtherModel",
    "Outcome",
    "Parameters",
    "Parsed",
    "Parser",
    "Picker",
    "PluginType",
    "PreRequest",
    "Producer",
    "ProfileHandler",
    "Profiles",
    "ProfilesValidator",
    "Refusal",
    "RefusalCode",
    "RelativeMetricScorer",
    "Replayable",
    "Request",
    "ResponseComplete",
    "ResponseHeaders",
    "ResponseReceived",
    "ResponseUsage",
    "Result",
    "Role",
    "RunOutcome",
    "SaturationDetector",
    "SchedulingContext",
    "Scored",
    "Scorer",
    "SetFilter",
    "ShadowProfiles",
    "SparseVector",
    "StateKey",
    "TieBreakingPicker",
    "UsageLimitPolicy",
    "decision_from",
    "linked_type",
    "plugin_type",
]
