"""Endpoints in log lines: the pods that they are."""

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.reconcile.log_lines import Extra, about
from modelplane.reconcile.log_reasons import LogReason


def about_endpoint(reason: LogReason, endpoint: Endpoint) -> Extra:
    """Its name is `namespace/pod`, with the port where a pod has several."""
    name, _, port = endpoint.name.partition(":")
    return about(reason, "Pod", name, **({"port": port} if port else {}))
