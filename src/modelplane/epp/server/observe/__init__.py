"""Observability of the picker.

metrics         counters and histograms, plain and cheap
collector       Prometheus' view of them
worker_pages    one page of metrics for all workers
decision_log    some decisions as lines of JSON
tracing         spans of OpenTelemetry for some requests
decision_steps  the steps of a decision that is logged or traced
observer        passes what happens to requests on to all of them
admin           /metrics, /healthz, /readyz, /debug/state
"""

from modelplane.epp.server.observe.admin import AdminServer
from modelplane.epp.server.observe.collector import PickerCollector, PoolStats
from modelplane.epp.server.observe.decision_log import DecisionLog
from modelplane.epp.server.observe.decision_steps import DecisionSteps
from modelplane.epp.server.observe.metrics import PickerMetrics
from modelplane.epp.server.observe.observer import PickObserver
from modelplane.epp.server.observe.tracing import Tracing, otlp_provider

__all__ = [
    "AdminServer",
    "DecisionLog",
    "DecisionSteps",
    "PickObserver",
    "PickerCollector",
    "PickerMetrics",
    "PoolStats",
    "Tracing",
    "otlp_provider",
]
