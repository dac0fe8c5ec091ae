"""InferenceObjective and InferenceModelRewrite of a pool: priorities and model rewrites.

Both are optional: if the API does not serve them, there are none. A request names an objective; without one, or if it
does not exist, its priority is 0. For rewrites, an exact rule takes precedence over a generic one, an older object over
a younger one, and the first rule within an object; targets are drawn by weight. If some targets of a rule have a
weight, those without are never drawn.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from modelplane.epp.datalayer.tasks import cancel_all
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


class InferenceObjective(msgspec.Struct, frozen=True):
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
    """A target model; weight None: not given."""

    model: str = msgspec.field(name="modelRewrite")
    weight: int | None = None


class _Rule(msgspec.Struct, frozen=True):
    targets: tuple[RewriteTarget, ...]
    matches: tuple[_Match, ...] = ()


class _RewriteSpec(msgspec.Struct, frozen=True):
    pool_ref: _PoolRef = msgspec.field(name="poolRef", default=_PoolRef())
    rules: tuple[_Rule, ...] = ()


class InferenceModelRewrite(msgspec.Struct, frozen=True):
    """An InferenceModelRewrite, as far as it is read."""

    metadata: _Meta
    spec: _RewriteSpec = _RewriteSpec()

    @property
    def rules(self) -> "RewriteRules":
        """Creation time, name, and the rules that have targets."""
        usable = tuple(rule for rule in self.spec.rules if rule.targets)
        return self.metadata.created, self.metadata.name, usable


RewriteRules = tuple[str, str, tuple[_Rule, ...]]


class PolicyDocument(msgspec.Struct, frozen=True):
    """The priorities of objectives by name, and the rules of rewrites."""

    priorities: Mapping[str, int] = {}
    rewrites: tuple[RewriteRules, ...] = ()


class Rewrite(msgspec.Struct, frozen=True):
    """The target model, and the name of the InferenceModelRewrite."""

    name: str
    model: str
    exact: bool = False
    """Whether the rule names the requested model."""


class RewriteTable:
    """Priorities by objective, and rewrite rules by model."""

    def __init__(self) -> None:
        self.document = PolicyDocument()
        """What the table was made of."""
        self._exact: dict[str, tuple[str, _Rule]] = {}
        self._generic: tuple[str, _Rule] | None = None

    @property
    def priorities(self) -> Mapping[str, int]:
        """By the name of the objective."""
        return self.document.priorities

    @property
    def has_rewrites(self) -> bool:
        return bool(self._exact) or self._generic is not None

    def rewrite(self, model: str, chance: float) -> Rewrite | None:
        """The rewrite of the model; None if no rule matches. `chance` is in [0, 1)."""
        exact = self._exact.get(model)
        found = exact or self._generic
        if found is None:
            return None
        name, rule = found
        return Rewrite(name, draw_target(rule.targets, chance), exact is not None)

    def replace(self, document: PolicyDocument) -> None:
        """Replace everything."""
        self.document = document
        self._exact, self._generic = {}, None
        for _, name, rules in sorted(document.rewrites, key=lambda one: one[:2]):
            for rule in rules:
                if not rule.matches and self._generic is None:
                    self._generic = (name, rule)
                for match in rule.matches:
                    if match.model is not None:
                        self._exact.setdefault(match.model.value, (name, rule))


class PolicyInformers:
    """Watches the objects of one pool, in both API groups; the newer group wins for equal names. One event loop."""

    def __init__(self, client: KubeClient, namespace: str, pool: str) -> None:
        self._pool = pool
        self._table = RewriteTable()
        self._objectives = [
            Informer(client, Query(kind, namespace), self._priority) for kind in (LEGACY_OBJECTIVES, OBJECTIVES)
        ]
        self._rewrites = [
            Informer(client, Query(kind, namespace), self._rewrite) for kind in (LEGACY_REWRITES, REWRITES)
        ]
        for objectives in self._objectives:
            objectives.listen(lambda _: self._index())
        for rewrites in self._rewrites:
            rewrites.listen(lambda _: self._index())
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._tasks = [
            *(asyncio.create_task(informer.run()) for informer in self._objectives),
            *(asyncio.create_task(informer.run()) for informer in self._rewrites),
        ]

    async def stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        await cancel_all(tasks)

    @property
    def document(self) -> PolicyDocument:
        """All of it; another object after each change."""
        return self._table.document

    @property
    def priorities(self) -> Mapping[str, int]:
        """By the name of the objective."""
        return self._table.priorities

    @property
    def has_rewrites(self) -> bool:
        return self._table.has_rewrites

    def rewrite(self, model: str, chance: float) -> Rewrite | None:
        """The rewrite of the model; None if no rule matches. `chance` is in [0, 1)."""
        return self._table.rewrite(model, chance)

    def _priority(self, raw: Raw) -> int | None:
        found = msgspec.convert(raw, InferenceObjective)
        return found.priority if found.spec.pool_ref.name == self._pool else None

    def _rewrite(self, raw: Raw) -> RewriteRules | None:
        found = msgspec.convert(raw, InferenceModelRewrite)
        return found.rules if found.spec.pool_ref.name == self._pool else None

    def _index(self) -> None:
        priorities = {
            key.name: priority for informer in self._objectives for key, priority in informer.snapshot.items()
        }
        rewrites = tuple(rules for informer in self._rewrites for rules in informer.snapshot.values())
        self._table.replace(PolicyDocument(priorities, rewrites))


def draw_target(targets: Sequence[RewriteTarget], chance: float) -> str:
    """The model of one target, drawn by weight; equal weights if none has one."""
    weights = [target.weight or 0 for target in targets]
    if not any(weights):
        weights = [1] * len(targets)
    rest = chance * sum(weights)
    for target, weight in zip(targets, weights, strict=True):
        if weight and rest < weight:
            return target.model
        rest -= weight
    return next(target.model for target, weight in zip(reversed(targets), reversed(weights), strict=True) if weight)
