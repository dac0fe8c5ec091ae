"""The `flowControl` section of a configuration."""

from collections.abc import Callable

from modelplane.api.errors import InputError
from modelplane.epp.config.fields import BandFields, FlowControlFields
from modelplane.epp.flowcontrol.fairness import FairnessPolicy
from modelplane.epp.flowcontrol.ordering import OrderingPolicy
from modelplane.epp.flowcontrol.settings import BandSettings, FlowSettings
from modelplane.epp.flowcontrol.usage import UsageLimitPolicy


def settings_of(fields: FlowControlFields, find: Callable[[str], object]) -> FlowSettings:
    """The settings of the section. `find` returns a configured plugin by its name, None if there is none."""
    usual = FlowSettings()
    default = _band(fields.default_priority_band, usual.default_band, find)
    negative = _band(fields.default_negative_priority_band, default, find)
    ttl_s = usual.ttl_s if fields.default_request_ttl is None else float(fields.default_request_ttl)
    return FlowSettings(
        max_requests=fields.max_requests or 0,
        max_bytes=fields.max_bytes or 0,
        ttl_s=ttl_s,
        no_endpoint_ttl_s=ttl_s if fields.no_endpoint_request_ttl is None else float(fields.no_endpoint_request_ttl),
        bands={band.priority: _band(band, default, find) for band in fields.priority_bands or ()},
        default_band=default,
        negative_band=negative,
        usage=_usage(fields.usage_limit_policy_plugin_ref, usual.usage, find),
        evicts=fields.enable_eviction,
    )


def _band(fields: BandFields | None, usual: BandSettings, find: Callable[[str], object]) -> BandSettings:
    if fields is None:
        return usual
    return BandSettings(
        usual.max_requests if fields.max_requests is None else int(fields.max_requests),
        usual.max_bytes if fields.max_bytes is None else int(fields.max_bytes),
        _fairness(fields.fairness_policy_ref, usual.fairness, find),
        _ordering(fields.ordering_policy_ref, usual.ordering, find),
    )


def _fairness(name: str, usual: FairnessPolicy, find: Callable[[str], object]) -> FairnessPolicy:
    found = find(name) if name else usual
    if not isinstance(found, FairnessPolicy):
        raise _no_policy(name, "fairness policy")
    return found


def _ordering(name: str, usual: OrderingPolicy, find: Callable[[str], object]) -> OrderingPolicy:
    found = find(name) if name else usual
    if not isinstance(found, OrderingPolicy):
        raise _no_policy(name, "ordering policy")
    return found


def _usage(name: str, usual: UsageLimitPolicy, find: Callable[[str], object]) -> UsageLimitPolicy:
    found = find(name) if name else usual
    if not isinstance(found, UsageLimitPolicy):
        raise _no_policy(name, "usage limit policy")
    return found


def _no_policy(name: str, wanted: str) -> InputError:
    return InputError(f"flowControl: no {wanted} is named {name}")
