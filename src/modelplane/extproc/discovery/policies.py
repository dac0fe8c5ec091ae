"""Priorities and model rewrites that stand beside a pool: InferenceObjective and InferenceModelRewrite.

Both are optional: an API that does not serve them is one without any. A request names an objective; without one, or
with one that nobody wrote, its priority is 0. Of rewrites an exact rule comes before a generic one, the oldest object
before younger ones, and inside an object the first rule; targets are drawn by weight. Where some targets of a rule have
a weight, those without are never drawn.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from modelplane.kube import Informer, Kind, KubeClient, Query
from modelplane.kube.client import Raw

OBJECTIVES = Kind("llm-d.ai", "v1alpha2", "inferenceobjectives")
REWRITES = Kind("llm-d.ai", "v1alpha2", "inferencemodelrewrites")
LEGACY_OBJECTIVES = Kind("inference.networking.x-k8s.io", "v1alpha2", "inferenceobjectives")
LEGACY_REWRITES = Kind("inference.networking.x-k8s.io", "v1alpha2", "inferencemodelrewrites")


class _PoolRef(msgspec.Struct, frozen=True):
    name: str


class _ObjectiveSpec(msgspec.Struct, frozen=True):
    pool_ref: _PoolRef = msgspec.field(name="poolRef")
    priority: int | None = None


class _Objective(msgspec.Struct, frozen=True):
    spec: _ObjectiveSpec


class _Model(msgspec.Struct, frozen=True):
    value: str
    type: str = "Exact"


class _Match(msgspec.Struct, frozen=True):
    model: _Model | None = None


class Target(msgspec.Struct, frozen=True):
    """A model to ask for instead; weight None: not given."""

    model: str = msgspec.field(name="modelRewrite")
    weight: int | None = None


class _Rule(msgspec.Struct, frozen=True):
    targets: tuple[Target, ...]
    matches: tuple[_Match, ...] = ()


class _RewriteSpec(msgspec.Struct, frozen=True):
    pool_ref: _PoolRef = msgspec.field(name="poolRef")
    rules: tuple[_Rule, ...] = ()


class _Meta(msgspec.Struct, frozen=True):
    name: str
    created: str = msgspec.field(name="creationTimestamp", default="")


class _RewriteObject(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _RewriteSpec


class Rewrite(msgspec.Struct, frozen=True):
    """What a request is to ask for, and by which object."""

    name: str
    model: str


class Policies:
    """Of one pool. One event loop."""

    def __init__(self, client: KubeClient, namespace: str, pool: str, *, legacy: bool = False) -> None:
        objectives = LEGACY_OBJECTIVES if legacy else OBJECTIVES
        rewrites = LEGACY_REWRITES if legacy else REWRITES
        self._pool = pool
        self._objectives = Informer(client, Query(objectives, namespace), self._priority)
        self._rewrites = Informer(client, Query(rewrites, namespace), self._rewrite)
        self._rewrites.listen(lambda _: self._index())
        self._exact: dict[str, tuple[str, _Rule]] = {}
        self._generic: tuple[str, _Rule] | None = None
        self._priorities: dict[str, int] = {}
        self._objectives.listen(lambda _: self._name_priorities())
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._tasks = [asyncio.create_task(informer.run()) for informer in (self._objectives, self._rewrites)]

    async def stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

    @property
    def priorities(self) -> Mapping[str, int]:
        """By the name of the objective."""
        return self._priorities

    @property
    def has_rewrites(self) -> bool:
        return bool(self._exact) or self._generic is not None

    def rewrite(self, model: str, chance: float) -> Rewrite | None:
        """What to ask for instead of the model; None: there is no rule for it. `chance` is in [0, 1)."""
        found = self._exact.get(model) or self._generic
        if found is None:
            return None
        name, rule = found
        return Rewrite(name, drawn(rule.targets, chance))

    def _priority(self, raw: Raw) -> int | None:
        spec = msgspec.convert(raw, _Objective).spec
        return (spec.priority or 0) if spec.pool_ref.name == self._pool else None

    def _rewrite(self, raw: Raw) -> tuple[str, str, tuple[_Rule, ...]] | None:
        found = msgspec.convert(raw, _RewriteObject)
        if found.spec.pool_ref.name != self._pool:
            return None
        usable = tuple(rule for rule in found.spec.rules if rule.targets)
        return found.metadata.created, found.metadata.name, usable

    def _name_priorities(self) -> None:
        self._priorities = {key.name: priority for key, priority in self._objectives.snapshot.items()}

    def _index(self) -> None:
        self._exact, self._generic = {}, None
        for _, name, rules in sorted(self._rewrites.snapshot.values(), key=lambda one: one[:2]):
            for rule in rules:
                if not rule.matches and self._generic is None:
                    self._generic = (name, rule)
                for match in rule.matches:
                    if match.model is not None:
                        self._exact.setdefault(match.model.value, (name, rule))


def drawn(targets: Sequence[Target], chance: float) -> str:
    """The model of one target, by weight; all alike where none has a weight."""
    weights = [target.weight or 0 for target in targets]
    if not any(weights):
        weights = [1] * len(targets)
    rest = chance * sum(weights)
    for target, weight in zip(targets, weights, strict=True):
        if weight and rest < weight:
            return target.model
        rest -= weight
    return next(target.model for target, weight in zip(reversed(targets), reversed(weights), strict=True) if weight)
