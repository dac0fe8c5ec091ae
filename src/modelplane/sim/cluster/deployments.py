"""Deployments: a ReplicaSet for each revision of the pod template, sized step by step.

The sizes come from `rollout`, the words from `deployment_status`. This controller never touches a pod: ReplicaSets do.
Not modelled: adoption of ReplicaSets that somebody else made, rollback by annotation, hash collisions (the hash is
long enough).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from modelplane.api.objects import (
    Json,
    Manifest,
    int_at,
    is_deleting,
    labels_of,
    manifest,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    value_at,
)
from modelplane.reconcile.outcomes import Done, Outcome, RequeueAfter
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.controller import ControllerContext, is_about
from modelplane.sim.cluster.deployment_status import RolloutState, deployment_status, progress_due_s, replicas_of
from modelplane.sim.cluster.objects import (
    annotated,
    annotation,
    controller_of,
    controller_ref,
    controller_reference,
    with_spec,
)
from modelplane.sim.cluster.rollout import (
    Revision,
    RolloutBounds,
    Sizes,
    bounds,
    first_size,
    is_scaling,
    recreate,
    recreate_bounds,
    rescale,
    roll,
)

APPS = "apps"
TEMPLATE_HASH = "pod-template-hash"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
REVISION = "deployment.kubernetes.io/revision"

_QUARTER = "25%"
_HISTORY = 10
_HASH_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10


class Deployments:
    """Keeps the ReplicaSets of a Deployment, and its status."""

    name = "deployments"
    kinds = frozenset({(APPS, "Deployment"), (APPS, "ReplicaSet")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, APPS, "Deployment"):
            return (change.ref,)
        if is_about(change, APPS, "ReplicaSet"):
            owner = controller_ref(change.manifest)
            return (owner,) if owner is not None and owner.kind == "Deployment" else ()
        return ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        deployment = self._store.get(ref)
        if deployment is None or is_deleting(deployment):
            return Done()
        wanted = bounds_of(deployment)
        sets = self._sets(deployment)
        new = _current(deployment, sets)
        old = [item for item in sets if item is not new]
        missing = new is None and not self._blocks_creation(deployment, wanted, old)
        if missing:
            new = self._create(deployment, wanted, old)
        elif new is not None:
            new = self._make_newest(new, old)
        self._resize(deployment, wanted, new, old)
        return self._report(deployment, self._sets(deployment), created=missing)

    def _sets(self, deployment: Manifest) -> list[Manifest]:
        """Its ReplicaSets, oldest first."""
        found = self._store.list(APPS, "ReplicaSet", namespace=namespace_of(deployment), labels=_own_labels(deployment))
        owned = [item for item in found if controller_of(item).get("uid") == uid_of(deployment)]
        return sorted(owned, key=lambda item: (int_of(item, REVISION) or 0, name_of(item)))

    def _blocks_creation(self, deployment: Manifest, wanted: RolloutBounds, old: Sequence[Manifest]) -> bool:
        """Paused, being resized, or a Recreate whose old pods are not gone."""
        if value_at(deployment, "spec", "paused") is True or is_scaling(wanted, [_revision(item) for item in old]):
            return True
        return wanted.recreate and any(replicas_of(item) or _pods(item) for item in old)

    def _create(self, deployment: Manifest, wanted: RolloutBounds, old: Sequence[Manifest]) -> Manifest:
        size = first_size(wanted, [_revision(item) for item in old])
        return self._store.create(_replica_set(deployment, wanted, size, _newest(old) + 1))

    def _make_newest(self, new: Manifest, old: Sequence[Manifest]) -> Manifest:
        """A return to an earlier template makes its ReplicaSet the newest revision."""
        if (int_of(new, REVISION) or 0) > _newest(old):
            return new
        return self._store.replace(annotated(new, REVISION, str(_newest(old) + 1)))

    def _resize(
        self, deployment: Manifest, wanted: RolloutBounds, new: Manifest | None, old: Sequence[Manifest]
    ) -> None:
        sets = [*old, *([new] if new is not None else [])]
        revisions = {name_of(item): _revision(item) for item in sets}
        old_revisions = [revisions[name_of(item)] for item in old]
        current = revisions[name_of(new)] if new is not None else None
        scaling = is_scaling(wanted, list(revisions.values()))
        sizes = _next_sizes(deployment, wanted, current, old_revisions, old_pods=sum(_pods(item) for item in old))
        for item in sets:
            size = sizes.get(name_of(item), replicas_of(item))
            if size != replicas_of(item) or (scaling and size > 0):
                self._store.replace(_sized(item, size, wanted))

    def _report(self, deployment: Manifest, sets: Sequence[Manifest], *, created: bool) -> Outcome:
        new = _current(deployment, sets)
        now = self._context.clock.now()
        seen = RolloutState(sets, new, least_available=bounds_of(deployment).least_available, created=created)
        status = deployment_status(deployment, seen, now)
        shown = self._store.replace_status({**deployment, "status": status})
        self._forget_history(deployment, sets, new)
        due = progress_due_s(shown)
        return Done() if due is None else RequeueAfter(max(0.0, due - now))

    def _forget_history(self, deployment: Manifest, sets: Sequence[Manifest], new: Manifest | None) -> None:
        limit = int_at(deployment, "spec", "revisionHistoryLimit", default=_HISTORY)
        empty = [item for item in sets if item is not new and not replicas_of(item) and not _pods(item)]
        for item in empty[: max(0, len(empty) - limit)]:
            self._store.delete(ref_of(item))


def bounds_of(deployment: Manifest) -> RolloutBounds:
    strategy = mapping_at(deployment, "spec", "strategy")
    if strategy.get("type") == "Recreate":
        return recreate_bounds(replicas_of(deployment))
    rolling = mapping_at(strategy, "rollingUpdate")
    surge, unavailable = rolling.get("maxSurge", _QUARTER), rolling.get("maxUnavailable", _QUARTER)
    return bounds(replicas_of(deployment), surge, unavailable)


def template_hash(deployment: Manifest) -> str:
    """The pod-template-hash; equal templates of any Deployment share it."""
    return digest_of(value_at(deployment, "spec", "template"))


def digest_of(value: object) -> str:
    """A short name for a value, in the letters that Kubernetes uses."""
    content = msgspec.json.encode(value, order="deterministic")
    number = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")
    digits = []
    for _ in range(_HASH_LENGTH):
        number, place = divmod(number, len(_HASH_ALPHABET))
        digits.append(_HASH_ALPHABET[place])
    return "".join(digits)


def int_of(item: Manifest, key: str) -> int | None:
    """The number in an annotation."""
    text = annotation(item, key)
    return int(text) if text.isdigit() else None


def _next_sizes(
    deployment: Manifest, wanted: RolloutBounds, new: Revision | None, old: Sequence[Revision], *, old_pods: int
) -> Sizes:
    everyone = [*old, *([new] if new is not None else [])]
    if value_at(deployment, "spec", "paused") is True or is_scaling(wanted, everyone):
        return rescale(wanted, new, old, int_at(deployment, "status", "replicas"))
    if new is None:
        return {revision.name: 0 for revision in old if revision.replicas > 0}
    if wanted.recreate:
        return recreate(wanted, new, old, old_pods=old_pods)
    return roll(wanted, new, old)


def _newest(sets: Sequence[Manifest]) -> int:
    return max((int_of(item, REVISION) or 0 for item in sets), default=0)


def _own_labels(deployment: Manifest) -> dict[str, str]:
    return {key: str(value) for key, value in mapping_at(deployment, "spec", "selector", "matchLabels").items()}


def _current(deployment: Manifest, sets: Sequence[Manifest]) -> Manifest | None:
    wanted = template_hash(deployment)
    return next((item for item in sets if labels_of(item).get(TEMPLATE_HASH) == wanted), None)


def _revision(item: Manifest) -> Revision:
    return Revision(
        name=name_of(item),
        created=text_at(item, "metadata", "creationTimestamp"),
        replicas=replicas_of(item),
        available=int_at(item, "status", "availableReplicas"),
        desired_then=int_of(item, DESIRED),
        most_then=int_of(item, MOST),
    )


def _pods(item: Manifest) -> int:
    return int_at(item, "status", "replicas") + int_at(item, "status", "terminatingReplicas")


def _sized(item: Manifest, size: int, wanted: RolloutBounds) -> Json:
    marks = {**mapping_at(item, "metadata", "annotations"), **_size_marks(wanted)}
    metadata = {**mapping_at(item, "metadata"), "annotations": marks}
    return {**with_spec(item, replicas=size), "metadata": metadata}


def _size_marks(wanted: RolloutBounds) -> dict[str, str]:
    return {DESIRED: str(wanted.replicas), MOST: str(wanted.most)}


def _replica_set(deployment: Manifest, wanted: RolloutBounds, size: int, revision: int) -> Json:
    digest = template_hash(deployment)
    template = mapping_at(deployment, "spec", "template")
    labels = {**_strings(mapping_at(template, "metadata", "labels")), TEMPLATE_HASH: digest}
    selector = mapping_at(deployment, "spec", "selector")
    item = manifest(
        "apps/v1",
        "ReplicaSet",
        f"{name_of(deployment)}-{digest}",
        namespace=namespace_of(deployment),
        labels=labels,
        spec={
            "replicas": size,
            "minReadySeconds": int_at(deployment, "spec", "minReadySeconds"),
            "selector": {**selector, "matchLabels": {**mapping_at(selector, "matchLabels"), TEMPLATE_HASH: digest}},
            "template": {**template, "metadata": {**mapping_at(template, "metadata"), "labels": labels}},
        },
    )
    marks = {**_size_marks(wanted), REVISION: str(revision)}
    owner = controller_reference(deployment)
    return {**item, "metadata": {**mapping_at(item, "metadata"), "annotations": marks, "ownerReferences": [owner]}}


def _strings(values: Mapping[str, object]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items()}
