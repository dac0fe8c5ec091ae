"""Clients of the models: each request goes to an endpoint of its deployment and ends in exactly one outcome.

A request tries the ready ModelEndpoints of its deployment in turn, as a gateway does, and is answered by the first
whose replica serves. Deployments of higher priority are asked first; nothing else is modelled of requests.
"""

from collections import Counter
from enum import StrEnum
from typing import Protocol

from modelplane.api.labels import DEPLOYMENT
from modelplane.api.objects import Manifest, labels_of, name_of, namespace_of, text_at
from modelplane.testing.world.clockwork import Clockwork
from modelplane.testing.world.judge import is_held
from modelplane.testing.world.layout import PRIORITIES
from modelplane.testing.world.store import ApiStore, ObjectId

EVERY_S = 10.0


class RequestEnd(StrEnum):
    SERVED = "Served"
    UNAVAILABLE = "Unavailable"


class Served(Protocol):
    store: ApiStore
    clock: Clockwork

    def truly_serves(self, replica: Manifest) -> bool: ...
    def probe(self, name: str) -> None: ...


class WorldClients:
    def __init__(self, world: Served) -> None:
        self._world = world
        self.ends: Counter[tuple[ObjectId, RequestEnd]] = Counter()
        self._turn = 0
        world.clock.after(EVERY_S, self._send_all)

    def _send_all(self) -> None:
        self._world.clock.after(EVERY_S, self._send_all)
        self._turn += 1
        ordered = sorted(self._world.store.all_of("ModelDeployment"), key=lambda item: -_priority(item))
        for deployment in ordered:
            self.send(deployment)

    def send(self, deployment: Manifest) -> RequestEnd:
        """One request, and its end."""
        key = ObjectId("ModelDeployment", namespace_of(deployment), name_of(deployment))
        end = RequestEnd.UNAVAILABLE
        for at, endpoint in enumerate(self._endpoints(deployment)):
            if self._answers(endpoint):
                end = RequestEnd.SERVED
                if at:
                    self._world.probe("request answered by another replica")
                break
        self.ends[key, end] += 1
        return end

    def _endpoints(self, deployment: Manifest) -> list[Manifest]:
        found = [
            item
            for item in self._world.store.all_of("ModelEndpoint")
            if namespace_of(item) == namespace_of(deployment)
            and labels_of(item).get(DEPLOYMENT) == name_of(deployment)
            and is_held(item, "Ready")
        ]
        turn = self._turn % len(found) if found else 0
        return [*found[turn:], *found[:turn]]

    def _answers(self, endpoint: Manifest) -> bool:
        name = text_at(endpoint, "spec", "replica", "name")
        replica = self._world.store.get(ObjectId("ModelReplica", namespace_of(endpoint), name))
        return replica is not None and self._world.truly_serves(replica)


def _priority(deployment: Manifest) -> int:
    return PRIORITIES.get(text_at(deployment, "spec", "priority"), 0)
