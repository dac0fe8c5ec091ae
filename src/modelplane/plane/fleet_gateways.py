"""The gateways of the fleet as the embedded plane serves them: one listener for each InferenceGateway.

The default one has the plane's own port. Any other gets a free one, and keeps it while the plane runs. A Gateway
without an InferenceGateway is the default one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.labels import FLEET_GATEWAY, SYSTEM_NAMESPACE, selects
from modelplane.api.models import InferenceGateway, LabelSelector
from modelplane.api.objects import GROUP
from modelplane.compose.caller_document import CallerDocument, gateway_callers
from modelplane.compose.callers import read_callers
from modelplane.compose.fleet_gateways import gateway_object_name, has_router
from modelplane.compose.service_plan import ServicePlan
from modelplane.envoy import free_port
from modelplane.envoy.view import CallerKey
from modelplane.reconcile.store import Store

FLEET = "fleet"
"""The name of the default gateway's listener."""


@dataclass(frozen=True, slots=True)
class ServedGateway:
    """What a gateway serves, and to whom."""

    listener: str
    object_name: str
    port: int
    selector: LabelSelector | None = None
    callers: tuple[CallerKey, ...] | None = field(default=None, repr=False)
    has_router: bool = False
    caller_document: CallerDocument = field(default_factory=lambda: CallerDocument(checks_keys=False))
    """What its callers may do."""

    def plans(self, plans: Iterable[ServicePlan]) -> tuple[ServicePlan, ...]:
        return tuple(plan for plan in plans if selects(self.selector, plan.labels))


class FleetGateways:
    """The gateways of a store."""

    def __init__(self, store: Store, host: str, port: int) -> None:
        self._store = store
        self._host = host
        self._ports = {FLEET_GATEWAY: port}

    def served(self) -> list[ServedGateway]:
        """The default one first, whether or not it exists."""
        found = {each.object_name: each for each in map(self._served, self._declared())}
        default = found.pop(FLEET_GATEWAY, None) or ServedGateway(FLEET, FLEET_GATEWAY, self._ports[FLEET_GATEWAY])
        return [default, *(found[name] for name in sorted(found))]

    def _declared(self) -> Iterator[InferenceGateway]:
        for item in self._store.list(GROUP, "InferenceGateway"):
            try:
                yield decode(InferenceGateway, {**item, "status": {}})
            except InputError:
                continue

    def _served(self, gateway: InferenceGateway) -> ServedGateway:
        name = gateway_object_name(gateway)
        listener = FLEET if name == FLEET_GATEWAY else f"{FLEET}.{gateway.metadata.name}"
        port = self._ports.get(name) or self._ports.setdefault(name, free_port(self._host))
        callers = self._callers(gateway)
        return ServedGateway(
            listener,
            name,
            port,
            gateway.spec.service_selector,
            callers,
            has_router(gateway, embedded=True),
            gateway_callers(gateway, (each.identity for each in callers or ())),
        )

    def _callers(self, gateway: InferenceGateway) -> tuple[CallerKey, ...] | None:
        auth = gateway.spec.auth
        if auth is None:
            return None
        labels = auth.api_key.secret_selector.match_labels if auth.api_key is not None else {}
        secrets = self._store.list("", "Secret", namespace=SYSTEM_NAMESPACE, labels=labels) if labels else ()
        found = read_callers(secrets)
        return tuple(CallerKey(each.identity, each.key) for each in found.callers)
