"""Errors of Envoy.

ModelplaneError
├── ConfigRefusedError     Envoy rejected a configuration; it serves the previous one
└── UnavailableError
    └── EnvoyFailedError   Envoy did not start, did not respond in time, or exited
"""

from modelplane.api.errors import ModelplaneError, UnavailableError


class ConfigRefusedError(ModelplaneError):
    """Envoy rejected a configuration, with its reason; it serves the previous one."""


class EnvoyFailedError(UnavailableError):
    """Envoy did not start, did not respond in time, or exited."""
