"""Random hardware and random claims on it, for the real scheduler and for ours.

Each case has a node, drivers and device classes of its own, so that hundreds live in one cluster without meeting. The
generator knows the shape of the API and little of its rules: what a server refuses is a case too. Taints keep new pods
away and evict nobody: a pod that is evicted at once leaves nothing to compare.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.client import Manifest

API = "resource.k8s.io/v1"
CASE_LABEL = "example.org/case"
_MODELS = ("a", "b", "c")
_MEMORIES = ("10Gi", "40Gi", "80Gi")


@dataclass(frozen=True, slots=True)
class Case:
    """One node's hardware and the pods that want some of it, in order."""

    number: int
    slices: tuple[Manifest, ...]
    classes: tuple[Manifest, ...]
    pods: tuple[tuple[Manifest, ...], ...]

    @property
    def node(self) -> str:
        return f"dra-{self.number}"


def make_case(seed: int, number: int) -> Case:
    """The same seed and number make the same case."""
    return _Maker(random.Random(f"{seed}/{number}"), number).case()  # noqa: S311 - cases, not secrets


class _Maker:
    def __init__(self, chance: random.Random, number: int) -> None:
        self._chance = chance
        self._number = number
        self._gpu, self._nic = f"gpu-{number}.example.com", f"nic-{number}.example.com"
        self._shared = self._maybe(0.3)
        self._tainted = self._maybe(0.3)
        self._counted = self._maybe(0.3)

    def case(self) -> Case:
        pools = range(self._chance.choice((1, 1, 2, 3)))
        slices = tuple(item for pool in pools for item in self._pool(pool))
        pods = tuple(self._pod(index) for index in range(self._chance.choice((1, 2, 3))))
        return Case(self._number, slices, tuple(self._classes()), pods)

    def _maybe(self, probability: float) -> bool:
        return self._chance.random() < probability

    def _classes(self) -> list[Manifest]:
        ours = f'device.driver in ["{self._gpu}", "{self._nic}"]'
        selectors = {"any": ours, "gpu": f'device.driver == "{self._gpu}"', "odd": f"{ours} && {self._selector()}"}
        return [
            {
                "apiVersion": API,
                "kind": "DeviceClass",
                "metadata": {"name": f"{name}-{self._number}"},
                "spec": {"selectors": [{"cel": {"expression": expression}}]},
            }
            for name, expression in selectors.items()
        ]

    def _pool(self, pool: int) -> list[Manifest]:
        driver = self._nic if self._maybe(0.2) else self._gpu
        where: Manifest = {"nodeName": f"dra-{self._number}"} if self._maybe(0.75) else self._by_label()
        count = self._chance.choice((1, 1, 2))
        specs: list[Manifest] = [
            {**where, "devices": [self._device(driver, index, at) for at in range(self._chance.randint(2, 6))]}
            for index in range(count)
        ]
        if self._counted:
            specs.append({**where, "sharedCounters": [self._counters("set-0"), self._counters("set-1")]})
        told = len(specs) + self._maybe(0.03)
        name = f"pool-{self._number}-{pool}"
        return [
            {
                "apiVersion": API,
                "kind": "ResourceSlice",
                "metadata": {"name": f"{name}-{index}"},
                "spec": {"driver": driver, "pool": {"name": name, "generation": 1, "resourceSliceCount": told}, **spec},
            }
            for index, spec in enumerate(specs)
        ]

    def _by_label(self) -> Manifest:
        """Devices on a network, for the nodes of this case."""
        expression = {"key": CASE_LABEL, "operator": "In", "values": [str(self._number)]}
        return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}

    def _counters(self, name: str) -> Manifest:
        slots = {"slots": {"value": str(self._chance.randint(2, 8))}}
        return {"name": name, "counters": slots}

    def _device(self, driver: str, index: int, at: int) -> Manifest:
        device: Manifest = {"name": f"device-{index}-{at}", "attributes": self._attributes(driver)}
        if self._maybe(0.8) or self._shared:
            device["capacity"] = {"memory": self._capacity()}
        if self._shared and self._maybe(0.6):
            device["allowMultipleAllocations"] = True
        if self._counted and self._maybe(0.8):
            slots = {"slots": {"value": str(self._chance.randint(1, 4))}}
            device["consumesCounters"] = [{"counterSet": self._chance.choice(("set-0", "set-1")), "counters": slots}]
        if self._tainted and self._maybe(0.4):
            device["taints"] = [
                {"key": self._chance.choice("kj"), "value": self._chance.choice("vw"), "effect": "NoSchedule"}
            ]
        return device

    def _capacity(self) -> Manifest:
        capacity: Manifest = {"value": self._chance.choice(_MEMORIES)}
        if self._shared and self._maybe(0.5):
            policies: tuple[Manifest, ...] = (
                {"default": "10Gi"},
                {"default": "10Gi", "validValues": ["10Gi", "20Gi"]},
                {"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi"}},
            )
            capacity["requestPolicy"] = self._chance.choice(policies)
        return capacity

    def _attributes(self, driver: str) -> Manifest:
        found: Manifest = {"model": {"string": self._chance.choice(_MODELS)}}
        if self._maybe(0.95):
            found["index"] = {"int": self._chance.randint(0, 3)}
        if self._maybe(0.4):
            found["version"] = {"version": self._chance.choice(("1.0.0", "2.0.0"))}
        if self._maybe(0.4):
            found["example.org/root"] = {"string": self._chance.choice(("r0", "r1"))}
        if self._maybe(0.2):
            found[f"{driver}/domain"] = {"int": self._chance.randint(0, 1)}
        return found

    def _pod(self, pod: int) -> tuple[Manifest, ...]:
        return tuple(self._claim(f"claim-{self._number}-{pod}-{at}") for at in range(self._chance.choice((1, 1, 2))))

    def _claim(self, name: str) -> Manifest:
        requests = [self._request(f"r{at}") for at in range(self._chance.choice((1, 1, 2, 3)))]
        devices: Manifest = {"requests": requests}
        if self._maybe(0.25):
            devices["constraints"] = [self._constraint([str(request["name"]) for request in requests])]
        return {
            "apiVersion": API,
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "dra"},
            "spec": {"devices": devices},
        }

    def _request(self, name: str) -> Manifest:
        if self._maybe(0.75):
            return {"name": name, "exactly": self._ask()}
        choices = range(self._chance.choice((1, 2, 3)))
        return {"name": name, "firstAvailable": [{"name": f"s{at}", **self._ask()} for at in choices]}

    def _ask(self) -> Manifest:
        kinds = ("any", "gpu", "gpu", "gpu", "odd")
        ask: Manifest = {"deviceClassName": f"{self._chance.choice(kinds)}-{self._number}"}
        if self._maybe(0.3):
            ask["selectors"] = [{"cel": {"expression": self._selector()}}]
        if self._maybe(0.12):
            ask["allocationMode"] = "All"
        elif self._maybe(0.6):
            ask["count"] = self._chance.choice((1, 1, 1, 2, 2, 3))
        if self._shared and self._maybe(0.6):
            ask["capacity"] = {"requests": {"memory": self._chance.choice(("5Gi", "7Gi", "10Gi", "20Gi", "40Gi"))}}
        if self._tainted and self._maybe(0.5):
            ask["tolerations"] = [{"key": self._chance.choice("kj"), "operator": "Exists"}]
        return ask

    def _constraint(self, requests: list[str]) -> Manifest:
        names = (f"{self._gpu}/model", f"{self._gpu}/index", f"{self._gpu}/version", "example.org/root")
        kind = self._chance.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        constraint: Manifest = {kind: self._chance.choice(names)}
        if self._maybe(0.4):
            constraint["requests"] = self._chance.sample(requests, 1)
        return constraint

    def _selector(self) -> str:
        gpu, memory = f'device.attributes["{self._gpu}"]', f'device.capacity["{self._gpu}"]'
        if self._maybe(0.05):
            return f'{gpu}.model == "a"'  # an error, not false, on devices of the other driver
        return self._chance.choice(
            (
                f'"model" in {gpu} && {gpu}.model == "{self._chance.choice(_MODELS)}"',
                f'"index" in {gpu} && {gpu}.index < {self._chance.randint(1, 3)}',
                f'"version" in {gpu} && {gpu}.version.compareTo(semver("1.5.0")) > 0',
                f'device.driver == "{self._gpu}"',
                f'"memory" in {memory} && {memory}.memory.compareTo(quantity("20Gi")) >= 0',
                "true",
            )
        )
