"""What the webhook of LeaderWorkerSet does to a pod of a group when it is made: its place in the group.

Labels say which group and which place, and three variables come first in every container, so that later ones may refer
to them. With an exclusive topology a leader takes the domain of its node for its group. Not modelled: subgroups, TPUs.
"""

import hashlib
from collections.abc import Mapping

from modelplane.api.labels import ROLE
from modelplane.api.objects import Json, Manifest, items_at, labels_of, mapping_at, name_of, namespace_of, text_at
from modelplane.sim.cluster.objects import annotation

PREFIX = "leaderworkerset.sigs.k8s.io"
SET_NAME = f"{PREFIX}/name"
GROUP_INDEX = f"{PREFIX}/group-index"
GROUP_KEY = f"{PREFIX}/group-key"
WORKER_INDEX = f"{PREFIX}/worker-index"
REVISION = f"{PREFIX}/template-revision-hash"
SIZE = f"{PREFIX}/size"
LEADER_NAME = f"{PREFIX}/leader-name"
SUBDOMAIN_POLICY = f"{PREFIX}/subdomainPolicy"
EXCLUSIVE_TOPOLOGY = f"{PREFIX}/exclusive-topology"
UNIQUE = "UniquePerReplica"
LEADER = "0"


def admitted(pod: Json) -> Json:
    """The pod as it is stored. Pods of no group pass as they are."""
    labels = labels_of(pod)
    if SET_NAME not in labels:
        return pod
    number = name_of(pod).rpartition("-")[2]
    if labels.get(WORKER_INDEX) == LEADER:
        labels |= {GROUP_INDEX: number, GROUP_KEY: group_key(pod)}
    else:
        labels[WORKER_INDEX] = number
    spec = dict(mapping_at(pod, "spec"))
    if labels[WORKER_INDEX] == LEADER and annotation(pod, SUBDOMAIN_POLICY) == UNIQUE:
        spec["subdomain"] = name_of(pod)
    topology = annotation(pod, EXCLUSIVE_TOPOLOGY)
    if labels[WORKER_INDEX] == LEADER and topology:
        spec["affinity"] = {**mapping_at(spec, "affinity"), **_exclusive(topology, labels[GROUP_KEY])}
    variables = {
        "LWS_LEADER_ADDRESS": f"{labels[SET_NAME]}-{labels.get(GROUP_INDEX)}.{spec['subdomain']}.{namespace_of(pod)}",
        "LWS_GROUP_SIZE": annotation(pod, SIZE),
        "LWS_WORKER_INDEX": labels[WORKER_INDEX],
    }
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_with_variables(container, variables) for container in items_at(spec, field)]
    return {**pod, "metadata": {**mapping_at(pod, "metadata"), "labels": labels}, "spec": spec}


def _exclusive(topology: str, key: str) -> Json:
    def required(*expressions: Mapping[str, object]) -> Json:
        term = {"topologyKey": topology, "labelSelector": {"matchExpressions": list(expressions)}}
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}

    own = {"key": GROUP_KEY, "operator": "In", "values": [key]}
    others = ({"key": GROUP_KEY, "operator": "Exists"}, {"key": GROUP_KEY, "operator": "NotIn", "values": [key]})
    return {"podAffinity": required(own), "podAntiAffinity": required(*others)}


def is_leader(pod: Manifest) -> bool:
    return labels_of(pod).get(WORKER_INDEX) == LEADER


def is_worker(pod: Manifest) -> bool:
    """Whether the pod belongs to a group that another pod leads: such a pod takes no requests."""
    labels = labels_of(pod)
    return labels.get(WORKER_INDEX, LEADER) != LEADER or labels.get(ROLE) == "worker"


def group_size(pod: Manifest) -> int:
    """How many pods the group of a pod has; 1 for pods of no group."""
    text = annotation(pod, SIZE)
    return int(text) if text.isdecimal() else 1


def group_key(leader: Manifest) -> str:
    text = f"{text_at(leader, 'metadata', 'namespace')}/{name_of(leader)}"
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def _with_variables(container: Mapping[str, object], variables: Mapping[str, str]) -> Json:
    others = [entry for entry in items_at(container, "env") if entry.get("name") not in variables]
    return {**container, "env": [*({"name": name, "value": value} for name, value in variables.items()), *others]}
