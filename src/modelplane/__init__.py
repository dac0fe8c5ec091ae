"""The control plane for a fleet of inference clusters: what Python programs may call.

    read_documents, parse_documents         manifests from files or text, with the place of every field
    validate                                what an API server would refuse, and references that lead nowhere
    fleet_from, plan, schedule              where replicas go, and why
    compose_document, render                the objects that a manifest becomes
    load_picker_config, Scheduler,          the endpoint picker's decision for a request
    Endpoint, EndpointMetrics, Request
    Plane, PlaneSettings                    an embedded plane, for tests
    errors                                  every exception that a caller may expect, drawn as a tree

A name is imported when it is first used, so `import modelplane` costs next to nothing. docs/python.md shows each.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from modelplane.api import errors
from modelplane.api.version import __version__

if TYPE_CHECKING:
    from modelplane.cli.manifests import read_documents
    from modelplane.epp.config.config import load as load_picker_config
    from modelplane.epp.scheduling.endpoints import Endpoint
    from modelplane.epp.scheduling.metrics import EndpointMetrics
    from modelplane.epp.scheduling.requests import Request
    from modelplane.epp.scheduling.scheduler import Scheduler
    from modelplane.k8s.admission.documents import parse_documents
    from modelplane.plane.plane import Plane, PlaneSettings
    from modelplane.views.manifest_review import validate
    from modelplane.views.offline import compose_document, fleet_from, render, schedule
    from modelplane.views.plan import plan

__all__ = [
    "Endpoint",
    "EndpointMetrics",
    "Plane",
    "PlaneSettings",
    "Request",
    "Scheduler",
    "__version__",
    "compose_document",
    "errors",
    "fleet_from",
    "load_picker_config",
    "parse_documents",
    "plan",
    "read_documents",
    "render",
    "schedule",
    "validate",
]

_HOMES = {
    "Endpoint": "epp.scheduling.endpoints",
    "EndpointMetrics": "epp.scheduling.metrics",
    "Plane": "plane.plane",
    "PlaneSettings": "plane.plane",
    "Request": "epp.scheduling.requests",
    "Scheduler": "epp.scheduling.scheduler",
    "compose_document": "views.offline",
    "fleet_from": "views.offline",
    "load_picker_config": "epp.config.config:load",
    "parse_documents": "k8s.admission.documents",
    "plan": "views.plan",
    "read_documents": "cli.manifests",
    "render": "views.offline",
    "schedule": "views.offline",
    "validate": "views.manifest_review",
}
"""The module of each name, and after a colon its name there where that is another."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    module, _, own = _HOMES[name].partition(":")
    found: object = getattr(import_module(f"{__name__}.{module}"), own or name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
