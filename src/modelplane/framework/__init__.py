"""Filter, score, pick: one small way to choose among candidates, whatever they are.

A *profile* holds any filters, weighted scorers and exactly one picker. A run asks every filter about every candidate,
scores those that were admitted, and lets the picker rank them. The room knows nothing of what a candidate is: the
fleet scheduler hands it groups of node pools, the endpoint picker hands it serving pods.

Refused and broken never share a type. A refusal is a value with a code and numbers; a plugin that raises, or that
scores outside [0, 1], is a defect and surfaces as `PluginFault` with the plugin's name.

Who listens pays. Each step is told to a `Reporter` when there is one; without one no text is made.
"""

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
from modelplane.framework.state import RunState, Slot

__all__ = [
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
    "RunState",
    "Runner",
    "Scored",
    "Scorer",
    "SetFilter",
    "Slot",
    "SparseVector",
    "StepRecorder",
    "TieBreakingPicker",
    "Weighted",
    "admit",
    "make_profile",
    "zeros",
]
