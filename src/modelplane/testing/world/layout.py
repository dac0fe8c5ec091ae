"""The objects that a world begins with: classes, clusters and deployments of two teams, drawn from its seed."""

from random import Random

from modelplane.api.objects import API_VERSION, Json, manifest, mapping_at, namespace_of

DRIVER = "gpu.example.com"
CLASSES = {"h200": ("H200", 8), "h100": ("H100", 4)}
"""Product and devices of a node, by InferenceClass."""
PRIORITIES = {"gold": 100, "silver": 10}
TEAMS = ("team-a", "team-b")


def happens(random: Random, chance: float) -> bool:
    return random.random() < chance


def class_manifest(name: str) -> Json:
    product, count = CLASSES[name]
    device = {
        "name": "gpu",
        "driver": DRIVER,
        "deviceClassName": DRIVER,
        "count": count,
        "attributes": {"productName": {"string": product}},
    }
    return manifest(API_VERSION, "InferenceClass", name, spec={"devices": [device]})


def selector(product: str) -> str:
    return f'device.attributes["{DRIVER}"].productName == "{product}"'


def cluster_manifest(random: Random, name: str) -> Json:
    pools = [
        {"name": f"pool-{at}", "className": random.choice(sorted(CLASSES)), "nodeCount": random.randint(1, 3)}
        for at in range(random.choice([1, 1, 2]))
    ]
    priorities = [{"name": priority, "value": value} for priority, value in PRIORITIES.items()]
    return manifest(
        API_VERSION,
        "InferenceCluster",
        name,
        labels={"region": random.choice(["east", "west"])},
        spec={
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}},
            "nodePools": pools,
            "scheduling": {"priorities": priorities},
        },
    )


def deployment_manifest(random: Random, namespace: str, name: str) -> Json:
    product = random.choice([None, None, "H200", "H100"])
    chosen = {"selectors": [{"cel": selector(product)}]} if product else {}
    spec: Json = {
        "replicas": random.choice([0, 1, 1, 2, 2, 3]),
        "nodeSelector": {"devices": [{"name": "gpu", "count": random.choice([1, 2, 4]), **chosen}]},
        "workers": {"count": random.choice([1, 1, 1, 2]), "template": template("engine:1")},
        "failover": {"gracePeriodSeconds": random.choice([10, 30, 300])},
    }
    if happens(random, 0.3):
        spec["clusterSelector"] = {"matchLabels": {"region": random.choice(["east", "west"])}}
    if happens(random, 0.5):
        spec["priority"] = random.choice(sorted(PRIORITIES))
    if happens(random, 0.3):
        spec["preemptionPolicy"] = "PreemptLowerPriority"
    if happens(random, 0.1):
        spec["protected"] = True
    return manifest(API_VERSION, "ModelDeployment", name, namespace=namespace, spec=spec)


def template(image: str) -> Json:
    return {"spec": {"containers": [{"name": "engine", "image": image, "args": ["--model", "m"]}]}}


def world_manifests(random: Random) -> list[Json]:
    """Both teams use one name, so that nothing may go by names alone."""
    clusters = [cluster_manifest(random, name) for name in ("north", "south", "west")[: random.randint(1, 3)]]
    owners = [("team-a", "chat"), ("team-b", "chat"), ("team-a", "code")][: random.choice([2, 2, 3])]
    deployments = [deployment_manifest(random, namespace, name) for namespace, name in owners]
    return [*(class_manifest(name) for name in CLASSES), *clusters, *deployments]


_EVERY = 7
"""Worlds with caches: the others stay as they were drawn before there were any."""


def with_caches(seed: int, manifests: list[Json]) -> list[Json]:
    """In one world of seven, the first team stages weights, and its deployments mount them."""
    if seed % _EVERY != 1:
        return manifests
    random = Random(f"caches {seed}")  # noqa: S311  reproducible, not secret
    spec: Json = {
        "artifact": {"kind": "Weights"},
        "source": "HuggingFace",
        "huggingFace": {"repo": "team/model", "sizeGiB": 10},
        "storage": {"type": "PVC"},
        "replication": random.choice(["AllMatchingClusters", "WherePlaced"]),
    }
    cache = manifest(API_VERSION, "ModelCache", "weights", namespace=TEAMS[0], spec=spec)
    return [*(_mounting(item) for item in manifests), cache]


def _mounting(item: Json) -> Json:
    if item["kind"] != "ModelDeployment" or namespace_of(item) != TEAMS[0]:
        return item
    return {**item, "spec": {**mapping_at(item, "spec"), "caches": [{"name": "weights"}]}}
