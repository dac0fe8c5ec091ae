"""The real Envoy behind the embedded plane: one process, programmed by files, changed without a restart.

`render` turns what Kubernetes would hold (HTTPRoutes and what they point at) into Envoy's configuration and says what
it could not honour; `EnvoyProcess` runs the Envoy of the installed package and reports whether it took each change.
"""

from modelplane.envoy.config import EnvoyConfig
from modelplane.envoy.errors import ConfigRefusedError, EnvoyFailedError
from modelplane.envoy.gateways import Gateways
from modelplane.envoy.ports import free_port
from modelplane.envoy.process import Applied, EnvoyProcess, EnvoySettings
from modelplane.envoy.render import Renderer, render
from modelplane.envoy.view import GatewayView, Identity, Problem, ProblemReason

__all__ = [
    "Applied",
    "ConfigRefusedError",
    "EnvoyConfig",
    "EnvoyFailedError",
    "EnvoyProcess",
    "EnvoySettings",
    "GatewayView",
    "Gateways",
    "Identity",
    "Problem",
    "ProblemReason",
    "Renderer",
    "free_port",
    "render",
]
