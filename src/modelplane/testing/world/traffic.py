"""The traffic of a scenario: what clients of each service send, and what becomes of it.

Requests are counted and not run one by one, so a day takes seconds. Time is cut into slots; how many requests a slot
brings is drawn from the seed, the service and the slot, so two runs of one seed get the same clients whatever happens
to the fleet. They go to the endpoints that a gateway would use: ready ones, of the first priority that has any, each by
what it can serve. What is more than all can serve waits; what would wait for longer than `shed_after_s` is shed. Where
nobody answers, requests fail, and so do those in flight on a cluster that is lost. A replica that leaves while its
cluster answers ends what it has begun.

A few requests of each slot are drawn with their lengths, and stand for the others where times are concerned.

Left coarse: weights and overflow of services, queues of single endpoints, retries of clients, and the seconds until a
gateway stops to try a cluster that is lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log
from random import Random

from modelplane.api.codec import decode
from modelplane.api.labels import selects
from modelplane.api.models import ModelService
from modelplane.api.objects import Manifest, labels_of, namespace_of, text_at, uid_of
from modelplane.testing.world.engine_speed import EngineSpeed, RequestShape, engine_speed
from modelplane.testing.world.judge import is_held
from modelplane.testing.world.store import ObjectId
from modelplane.testing.world.world import World

_SPREAD = 0.6
"""Of the logarithm of a length: half of all prompts have between two thirds and one and a half times the median."""
_DRAWN = 8
_KNUTH_MOST = 30.0
_CHANGING_S = 30.0


@dataclass(frozen=True, slots=True)
class TrafficCurve:
    """Requests a second between these points, on straight lines, and as at the last one after it."""

    points: tuple[tuple[float, float], ...]

    def at(self, seconds: float) -> float:
        before = self.points[0]
        for point in self.points:
            if point[0] > seconds:
                width = point[0] - before[0]
                share = (seconds - before[0]) / width if width > 0 else 1.0
                return before[1] + (point[1] - before[1]) * max(share, 0.0)
            before = point
        return before[1]


@dataclass(frozen=True, slots=True)
class TrafficPlan:
    service: ObjectId
    curve: TrafficCurve
    shape: RequestShape
    shed_after_s: float


@dataclass(frozen=True, slots=True)
class TrafficSlice:
    """What happened to the requests of a service in a part of a slot."""

    at_s: float
    requests: int = 0
    shed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class DrawnRequest:
    """One that was served, and how many it stands for."""

    at_s: float
    ttft_ms: float
    answer_ms: float
    weight: float


@dataclass(frozen=True, slots=True)
class _Server:
    """A replica that answers, and what it can do."""

    uid: str
    cluster: str
    speed: EngineSpeed


@dataclass(slots=True)
class ServiceTraffic:
    """The state and the record of one service."""

    plan: TrafficPlan
    random: Random
    factor: float = 1.0
    waiting: int = 0
    started: int = 0
    slices: list[TrafficSlice] = field(default_factory=list)
    drawn: list[DrawnRequest] = field(default_factory=list)
    begun: bool = False
    rest: float = 0.0
    """The part of a request that has not come yet."""
    budget: float = 0.0
    """The part of a request that could have been started and was not."""
    in_flight: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By replica: its cluster, and how many requests it works on."""


class FleetTraffic:
    def __init__(self, world: World, plans: Sequence[TrafficPlan], *, slot_s: float) -> None:
        self._world, self._slot_s = world, slot_s
        self.services = {
            plan.service: ServiceTraffic(plan, Random(f"{world.seed} {plan.service}"))  # noqa: S311  reproducible
            for plan in plans
        }
        self._last = world.clock.elapsed
        self._version, self._changed_at = -1, 0.0
        self._servers: dict[ObjectId, list[_Server]] = {}
        self._speeds: dict[tuple[str, RequestShape], EngineSpeed] = {}
        self._slots: dict[ObjectId, tuple[int, float, int]] = {}
        if plans:
            self._plan_tick()

    def times(self, service: ObjectId, factor: float) -> None:
        """From now on, so many times the curve."""
        self.advance()
        self.services[service].factor = factor

    def begin(self) -> None:
        """Clients come, whether or not somebody answers."""
        for each in self.services.values():
            each.begun = True

    def advance(self) -> None:
        """Count what happened since the last time."""
        now = self._world.clock.elapsed
        if now <= self._last or not self.services:
            return
        self._refresh(now)
        for key, traffic in self.services.items():
            self._lose(key, traffic, now)
            self._count(key, traffic, now)
        self._last = now

    def refresh(self) -> None:
        """What answers may have changed without a write."""
        self._version = -1

    def _plan_tick(self) -> None:
        now = self._world.clock.elapsed
        edge = (int(now / self._slot_s) + 1) * self._slot_s - now
        is_changing = now - self._changed_at < _CHANGING_S
        self._world.clock.after(min(edge, 1.0) if is_changing else edge, self._tick)

    def _tick(self) -> None:
        self.advance()
        self._plan_tick()

    def _refresh(self, now: float) -> None:
        if self._version == self._world.store.version:
            return
        self._version, self._changed_at = self._world.store.version, now
        self._servers = {key: self._answering(traffic.plan) for key, traffic in self.services.items()}

    def _answering(self, plan: TrafficPlan) -> list[_Server]:
        service = self._world.store.get(plan.service)
        if service is None:
            return []
        tiers: dict[int, list[_Server]] = {}
        groups = decode(ModelService, service).spec.endpoints
        for endpoint in self._world.store.all_of("ModelEndpoint"):
            if namespace_of(endpoint) != plan.service.namespace or not is_held(endpoint, "Ready"):
                continue
            chosen = [group.priority for group in groups if selects(group.selector, labels_of(endpoint))]
            server = self._server(endpoint, plan.shape) if chosen else None
            if server is not None:
                tiers.setdefault(min(chosen), []).append(server)
        return tiers[min(tiers)] if tiers else []

    def _server(self, endpoint: Manifest, shape: RequestShape) -> _Server | None:
        store = self._world.store
        replica = store.get(
            ObjectId("ModelReplica", namespace_of(endpoint), text_at(endpoint, "spec", "replica", "name"))
        )
        if replica is None or not self._world.truly_serves(replica):
            return None
        uid, cluster = uid_of(replica), text_at(replica, "spec", "clusterName")
        if (uid, shape) not in self._speeds:
            self._speeds[uid, shape] = engine_speed(
                replica, store.get(ObjectId("InferenceCluster", "", cluster)), shape
            )
        return _Server(uid, cluster, self._speeds[uid, shape])

    def _lose(self, key: ObjectId, traffic: ServiceTraffic, now: float) -> None:
        """Requests in flight on clusters that do not answer any more."""
        answering = {server.uid for server in self._servers[key]}
        lost = 0.0
        for uid, (cluster, number) in list(traffic.in_flight.items()):
            if uid in answering:
                continue
            del traffic.in_flight[uid]
            there = self._world.clusters.get(cluster)
            if there is None or there.dark:
                lost += number
        failed = min(round(lost), traffic.started)
        if failed:
            traffic.started -= failed
            traffic.slices.append(TrafficSlice(now, failed=failed))

    def _count(self, key: ObjectId, traffic: ServiceTraffic, now: float) -> None:
        servers = self._servers[key]
        traffic.begun = traffic.begun or bool(servers)
        if not traffic.begun:
            return
        came = self._came(key, traffic, now)
        if not servers:
            failed, traffic.waiting, traffic.budget = came + traffic.waiting, 0, 0.0
            if failed:
                traffic.slices.append(TrafficSlice(now, requests=came, failed=failed))
            return
        self._serve(traffic, servers, came, now)

    def _came(self, key: ObjectId, traffic: ServiceTraffic, now: float) -> int:
        """The requests of this part of the slot."""
        middle = (self._last + now) / 2
        slot = int(middle / self._slot_s)
        if self._slots.get(key, (-1, 0.0, 0))[0] != slot:
            mean = traffic.plan.curve.at((slot + 0.5) * self._slot_s) * self._slot_s
            source = Random(f"{self._world.seed} {key} {slot}")  # noqa: S311  reproducible
            self._slots[key] = (slot, mean, _poisson(source, mean))
        _, mean, drawn = self._slots[key]
        # Of more clients the sum grows with their number, and its spread with the root of it.
        number = mean * traffic.factor + (drawn - mean) * traffic.factor**0.5
        traffic.rest += max(number, 0.0) * (now - self._last) / self._slot_s
        came = int(traffic.rest + 1e-9)
        traffic.rest -= came
        return came

    def _serve(self, traffic: ServiceTraffic, servers: Sequence[_Server], came: int, now: float) -> None:
        width = now - self._last
        capacity = sum(server.speed.capacity for server in servers)
        waited_s = traffic.waiting / capacity
        traffic.budget += capacity * width
        started = min(traffic.waiting + came, int(traffic.budget))
        traffic.waiting += came - started
        # What was not used is gone: an engine does not work ahead.
        traffic.budget = traffic.budget - started if traffic.waiting else min(traffic.budget - started, 1.0)
        shed = max(0, traffic.waiting - int(capacity * traffic.plan.shed_after_s))
        traffic.waiting -= shed
        traffic.started += started
        if came or shed:
            traffic.slices.append(TrafficSlice(now, requests=came, shed=shed))
        self._draw(traffic, servers, started / width / capacity, started, waited_s, now)

    def _draw(
        self,
        traffic: ServiceTraffic,
        servers: Sequence[_Server],
        load: float,
        started: int,
        waited_s: float,
        now: float,
    ) -> None:
        share = min(load, 1.0)
        batches = [server.speed.batch_at(share * server.speed.capacity) for server in servers]
        traffic.in_flight = {
            server.uid: (server.cluster, batch * server.speed.pods)
            for server, batch in zip(servers, batches, strict=True)
        }
        number = min(started, _DRAWN)
        weights = [server.speed.capacity for server in servers]
        chosen = traffic.random.choices(range(len(servers)), weights, k=number)
        for at in chosen:
            speed, batch = servers[at].speed, batches[at]
            prompt, output = (_length(traffic.random, mean) for mean in (speed.shape.prompt, speed.shape.output))
            ttft = 1000 * waited_s + speed.prefill_ms(prompt, batch)
            answer = ttft + (output - 1) * speed.step_ms(batch)
            traffic.drawn.append(DrawnRequest(now, ttft, answer, started / number))


def _length(random: Random, mean: int) -> int:
    return max(1, round(exp(random.gauss(log(mean) - _SPREAD * _SPREAD / 2, _SPREAD))))


def _poisson(random: Random, mean: float) -> int:
    if mean > _KNUTH_MOST:
        return max(0, round(random.gauss(mean, mean**0.5)))
    least, product, number = exp(-mean), random.random(), 0
    while product > least:
        number += 1
        product *= random.random()
    return number
