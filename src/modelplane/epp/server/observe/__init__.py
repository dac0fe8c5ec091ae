"""What people can see of the picker.

numbers         counters and histograms, plain and cheap
collector       Prometheus' view of them
decision_log    some decisions as lines of JSON
tracing         spans of OpenTelemetry for some requests
heard           what is heard of a decision that is logged or traced
observer        what the server tells, passed on to all of them
admin           /metrics, /healthz, /readyz, /debug/state
"""

from modelplane.epp.server.observe.admin import AdminServer
from modelplane.epp.server.observe.collector import PickerCollector, PoolStats
from modelplane.epp.server.observe.decision_log import DecisionLog
from modelplane.epp.server.observe.heard import Heard
from modelplane.epp.server.observe.numbers import Numbers
from modelplane.epp.server.observe.observer import PickObserver
from modelplane.epp.server.observe.tracing import Tracing, otlp_provider

__all__ = [
    "AdminServer",
    "DecisionLog",
    "Heard",
    "Numbers",
    "PickObserver",
    "PickerCollector",
    "PoolStats",
    "Tracing",
    "otlp_provider",
]
