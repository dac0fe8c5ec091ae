"""What a live control plane knows of the fleet, and how any control plane finds what a composite requires."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from modelplane.api.objects import GROUP, Manifest, labels_of
from modelplane.compose.contract import Requirement
from modelplane.placement.snapshot import Fleet
from modelplane.reconcile.live_fleet import LiveFleet
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange
from modelplane.testing.world.clockwork import Clockwork
from modelplane.testing.world.store import ObjectId, id_of
from modelplane.testing.world.views import View

FLEET = frozenset({"InferenceCluster", "ModelCache", "ModelReplica"})
_ASSUMED_S = 60.0


class LiveFleetCache:
    """A FleetCache on the watches of the view, with what was placed and is not seen yet."""

    def __init__(self, view: View, clock: Clockwork) -> None:
        self._view, self._clock = view, clock
        self._fleet = LiveFleet(capacity_changed=lambda: None)
        self._assumed: dict[ObjectId, float] = {}

    def hear(self, key: ObjectId, item: Manifest | None) -> None:
        self._assumed.pop(key, None)
        self._change(key, item)

    def fleet(self) -> Fleet | None:
        for key in [key for key, until in self._assumed.items() if until < self._clock.elapsed]:
            del self._assumed[key]
            self._change(key, None)
        return self._fleet.snapshot()

    def find(self, requirement: Requirement) -> tuple[Manifest, ...] | None:
        known = requirement.cluster is None and requirement.kind in FLEET
        return found_in(self._view, requirement) if known else None

    def decision_lock(self, kind: str) -> AbstractContextManager[object]:
        del kind
        return nullcontext()

    def assume(self, kind: str, manifests: Sequence[Manifest]) -> None:
        del kind
        for item in manifests:
            if item.get("kind") == "ModelReplica" and self._view.get(id_of(item)) is None:
                self._assumed[id_of(item)] = self._clock.elapsed + _ASSUMED_S
                self._fleet.assume(_ref(id_of(item)), item)

    def _change(self, key: ObjectId, item: Manifest | None) -> None:
        if key.kind in FLEET:
            kind = ChangeType.DELETED if item is None else ChangeType.MODIFIED
            self._fleet.apply(StoreChange(kind, _ref(key), item or {}, None, 0))


def _ref(key: ObjectId) -> ObjectRef:
    return ObjectRef(GROUP, key.kind, key.namespace, key.name)


def found_in(view: View, requirement: Requirement) -> tuple[Manifest, ...]:
    if requirement.name is not None:
        item = view.get(ObjectId(requirement.kind, requirement.namespace or "", requirement.name))
        return (item,) if item is not None else ()
    found = view.by_kind.get(requirement.kind, {})
    if not requirement.labels and not requirement.namespace:
        return tuple(found.values())
    items = found.items()
    return tuple(item for key, item in items if is_required(requirement, key, item))


def is_required(requirement: Requirement, key: ObjectId, item: Manifest) -> bool:
    if requirement.kind != key.kind or requirement.name not in {None, key.name}:
        return False
    if requirement.namespace not in {None, key.namespace} and requirement.namespace != "":
        return False
    return not requirement.labels or requirement.labels.items() <= labels_of(item).items()
