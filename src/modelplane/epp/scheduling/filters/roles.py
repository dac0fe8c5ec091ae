"""Filters endpoints by their role label in disaggregated serving.

A server without the label serves whole requests: it can decode. A missing role does not depend on load, so the request
ends with 503 and never with 429 (saturated).
"""

from collections.abc import Callable

from modelplane.epp.scheduling.endpoints import ROLE_LABEL, Endpoint, Role
from modelplane.epp.scheduling.static_filter import StaticFilter
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import NoParameters, PluginType, plugin_type

_EVERYTHING = frozenset((Role.BOTH, Role.PREFILL_DECODE, Role.ENCODE_PREFILL_DECODE))
_DECODES = frozenset((Role.DECODE, *_EVERYTHING))
_PREFILLS = frozenset((Role.PREFILL, Role.ENCODE_PREFILL, *_EVERYTHING))
_ENCODES = frozenset((Role.ENCODE, Role.ENCODE_PREFILL, Role.ENCODE_PREFILL_DECODE))


def _type(name: str, roles: frozenset[Role], *, unlabelled: bool) -> PluginType:
    def make(instance: str, _parameters: NoParameters) -> StaticFilter:
        return StaticFilter(instance, _judge(instance, frozenset(map(str, roles)), unlabelled=unlabelled))

    return plugin_type(name, make, NoParameters)


def _judge(name: str, roles: frozenset[str], *, unlabelled: bool) -> Callable[[Endpoint], Refusal | None]:
    def judge(endpoint: Endpoint) -> Refusal | None:
        role = endpoint.labels.get(ROLE_LABEL)
        if role is None:
            return None if unlabelled else Refusal(name, RefusalCode.UNRESOLVABLE, "has no role label")
        return None if role in roles else Refusal(name, RefusalCode.UNRESOLVABLE, "has the role {}", (role,))

    return judge


TYPES = (
    _type("decode-filter", _DECODES, unlabelled=True),
    _type("prefill-filter", _PREFILLS, unlabelled=False),
    _type("encode-filter", _ENCODES, unlabelled=False),
)
