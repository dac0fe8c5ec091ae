"""Errors of a profile, and faults of a plugin.

ProfileError (InputError)    the configuration names what is not there or breaks a rule; found at start-up
PluginFault                  a plugin raised or answered outside its contract: a defect, never a refusal
"""

from modelplane.api.errors import InputError


class ProfileError(InputError):
    """A profile that cannot be built. The sentence names the profile or the plugin."""


class PluginFault(Exception):  # noqa: N818  a defect of a plugin, not an error that users cause
    """A plugin broke its contract. `plugin` names it; the cause is chained."""

    def __init__(self, plugin: str, what: str) -> None:
        super().__init__(f"plugin {plugin}: {what}")
        self.plugin = plugin


def raised(plugin: str, error: Exception) -> PluginFault:
    """The fault of a plugin that raised; the error is chained for its traceback, also where `from` is compiled away."""
    fault = PluginFault(plugin, f"raised {type(error).__name__}: {error}")
    fault.__cause__ = error
    return fault
