"""Priorities and model rewrites that stand beside a pool: InferenceObjective and InferenceModelRewrite.

Both are optional: an API that does not serve them is one without any. A request names an objective; without one, or
with one that nobody wrote, its priority is 0. Of rewrites an exact rule comes before a generic one, the oldest object
before younger ones, and inside an object the first rule; targets are drawn by weight. Where some targets of a rule have
a weight, those without are never drawn.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from modelplane.kube import GroupVersionResource, Informer, KubeClient, Query
from modelplane.kube.client import Raw

OBJECTIVES = GroupVersionResource("llm-d.ai", "v1alpha2", "inferenceobjectives")
REWRITES = GroupVersionResource("llm-d.ai", "v1alpha2", "inferencemodelrewrites")
LEGACY_OBJECTIVES = GroupVersionResource("inference.networking.x-k8s.io", "v1alpha2", "inferenceobjectives")
LEGACY_REWRITES = GroupVersionResource("inference.networking.x-k8s.io", "v1alpha2", "inferencemodelrewrites")


class _PoolRef(msgspec.Struct, frozen=True):
    name: str = ""


class _ObjectiveSpec(msgspec.Struct, frozen=True):
    pool_ref: _PoolRef = msgspec.field(name="poolRef", default=_PoolRef())
    priority: int | None = None


class _Meta(msgspec.Struct, frozen=True):
    name: str
    created: str = msgspec.field(name="creationTimestamp", default="")


class Objective(msgspec.Struct, frozen=True):
    """An InferenceObjective, as far as it is read."""

    metadata: _Meta
    spec: _ObjectiveSpec = _ObjectiveSpec()

    @property
    def priority(self) -> int:
        return self.spec.priority or 0


class _Model(msgspec.Struct, frozen=True):
    value: str
    type: str = "Exact"


class _Match(msgspec.Struct, frozen=True):
    model: _Model | None = None


class RewriteTarget(msgspec.Struct, frozen=True):
    """A model to ask for instead; weight None: not given."""

    model: str = msgspec.field(name="modelRewrite")
    weight: int | None = None


class _Rule(msgspec.Struct, frozen=True):
    targets: tuple[RewriteTarget, ...]
    matches: tuple[_Match, ...] = ()


class _RewriteSpec(msgspec.Struct, frozen=True):
    pool_ref: _PoolRef = msgspec.field(name="poolRef", default=_PoolRef())
    rules: tuple[_Rule, ...] = ()


class RewriteObject(msgspec.Struct, frozen=True):
    """An InferenceModelRewrite, as far as it is read."""

    metadata: _Meta
    spec: _RewriteSpec = _RewriteSpec()

    @property
    def rules(self) -> "RewriteRules":
        """When it was made, its name, and those of its rules that lead somewhere."""
        usable = tuple(rule for rule in self.spec.rules if rule.targets)
        return self.metadata.created, self.metadata.name, usable


RewriteRules = tuple[str, str, tuple[_Rule, ...]]


class Rewrite(msgspec.Struct, frozen=True):
    """What a request is to ask for, and by which object."""

    name: str
    model: str


class RewriteTable:
    """Rules, in the form in which requests ask for them."""

    def __init__(self) -> None:
        self.priorities: Mapping[str, int] = {}
        """By the name of the objective."""
        self._exact: dict[str, tuple[str, _Rule]] = {}
        self._generic: tuple[str, _Rule] | None = None

    @property
    def has_rewrites(self) -> bool:
        return bool(self._exact) or self._generic is not None

    def rewrite(self, model: str, chance: float) -> Rewrite | None:
        """What to ask for instead of the model; None: there is no rule for it. `chance` is in [0, 1)."""
        found = self._exact.get(model) or self._generic
        if found is None:
            return None
        name, rule = found
        return Rewrite(name, draw_target(rule.targets, chance))

    def index(self, rewrites: Iterable[RewriteRules]) -> None:
        """These rewrites, and no others."""
        self._exact, self._generic = {}, None
        for _, name, rules in sorted(rewrites, key=lambda one: one[:2]):
            for rule in rules:
                if not rule.matches and self._generic is None:
                    self._generic = (name, rule)
                for match in rule.matches:
                    if match.model is not None:
                        self._exact.setdefault(match.model.value, (name, rule))


class Policies:
    """Of one pool. Objects of the group's older name count, too, but where both have one of a name. One event loop."""

    def __init__(self, client: KubeClient, namespace: str, pool: str) -> None:
        self._pool = pool
        self._book = RewriteTable()
        self._objectives = [
            Informer(client, Query(kind, namespace), self._priority) for kind in (LEGACY_OBJECTIVES, OBJECTIVES)
        ]
        self._rewrites = [
            Informer(client, Query(kind, namespace), self._rewrite) for kind in (LEGACY_REWRITES, REWRITES)
        ]
        for objectives in self._objectives:
            objectives.listen(lambda _: self._name_priorities())
        for rewrites in self._rewrites:
            rewrites.listen(lambda _: self._name_rewrites())
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._tasks = [
            *(asyncio.create_task(informer.run()) for informer in self._objectives),
            *(asyncio.create_task(informer.run()) for informer in self._rewrites),
        ]

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
        return self._book.priorities

    @property
    def has_rewrites(self) -> bool:
        return self._book.has_rewrites

    def rewrite(self, model: str, chance: float) -> Rewrite | None:
        """What to ask for instead of the model; None: there is no rule for it. `chance` is in [0, 1)."""
        return self._book.rewrite(model, chance)

    def _priority(self, raw: Raw) -> int | None:
        found = msgspec.convert(raw, Objective)
        return found.priority if found.spec.pool_ref.name == self._pool else None

    def _rewrite(self, raw: Raw) -> RewriteRules | None:
        found = msgspec.convert(raw, RewriteObject)
        return found.rules if found.spec.pool_ref.name == self._pool else None

    def _name_priorities(self) -> None:
        self._book.priorities = {
            key.name: priority for informer in self._objectives for key, priority in informer.snapshot.items()
        }

    def _name_rewrites(self) -> None:
        self._book.index(rules for informer in self._rewrites for rules in informer.snapshot.values())


def draw_target(targets: Sequence[RewriteTarget], chance: float) -> str:
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
