"""Runs and programs the Envoy of the embedded plane: one process, configured by files, changed without a restart.

`render` turns HTTPRoutes and the objects they reference into Envoy's configuration, and reports what is not supported.
`EnvoyProcess` runs the Envoy of the installed package and reports whether it accepted each change.
"""

from modelplane.envoy.config import EnvoyConfig
from modelplane.envoy.errors import ConfigRefusedError, EnvoyFailedError
from modelplane.envoy.gateways import GatewayConfigs
from modelplane.envoy.ports import free_port
from modelplane.envoy.process import ConfigApplied, EnvoyProcess, EnvoySettings
from modelplane.envoy.render import Renderer, render
from modelplane.envoy.view import GatewayProblem, GatewayView, ProblemReason, TlsCertificate

__all__ = [
    "ConfigApplied",
    "ConfigRefusedError",
    "EnvoyConfig",
    "EnvoyFailedError",
    "EnvoyProcess",
    "EnvoySettings",
    "GatewayConfigs",
    "GatewayProblem",
    "GatewayView",
    "ProblemReason",
    "Renderer",
    "TlsCertificate",
    "free_port",
    "render",
]
