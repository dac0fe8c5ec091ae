"""What can go wrong with Envoy.

ModelplaneError
├── ConfigRefusedError     Envoy refused a configuration; what it served before, it still serves
└── UnavailableError
    └── EnvoyFailedError   Envoy did not start, did not answer in time, or ended by itself
"""

from modelplane.api.errors import ModelplaneError, UnavailableError


class ConfigRefusedError(ModelplaneError):
    """Envoy refused a configuration, with its own reason; what it served before, it still serves."""


class EnvoyFailedError(UnavailableError):
    """Envoy did not start, did not answer in time, or ended by itself."""
