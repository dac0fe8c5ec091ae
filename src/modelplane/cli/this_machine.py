"""What `up --this-machine` adds: the cluster's manifests, and what runs its pods."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from modelplane.api.meta import ClusterName
from modelplane.cli.manifests import unless_given
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.admission.layout import Document
from modelplane.machine.fleet import CLUSTER, machine_fleet
from modelplane.machine.gpus import LocalGpu, find_gpus
from modelplane.machine.process_engines import ProcessEngines


@dataclass(frozen=True, slots=True)
class ThisMachine:
    gpus: tuple[LocalGpu, ...]
    engines: tuple[ClusterName, ProcessEngines]

    def documents(self, given: Sequence[Document]) -> list[Document]:
        text = "\n---\n".join(json.dumps(item) for item in machine_fleet(self.gpus))
        return unless_given(parse_documents(text.encode(), source="--this-machine"), given)

    @property
    def summary(self) -> str:
        if not self.gpus:
            return f"cluster {CLUSTER}: no NVIDIA GPU was found; its processors are devices of cpu.modelplane.ai"
        return f"cluster {CLUSTER}: {len(self.gpus)} x {self.gpus[0].product}"


def this_machine(data: Path) -> ThisMachine:
    gpus = find_gpus()
    return ThisMachine(gpus, (ClusterName(CLUSTER), ProcessEngines(gpus, data / CLUSTER, data / "volumes")))
