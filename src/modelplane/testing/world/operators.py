"""What people do to a world while it runs: edits that stay, and mistakes that are set right later."""

from collections.abc import Callable

from modelplane.api.objects import Json, Manifest, labels_of, mapping_at, name_of, namespace_of, with_metadata
from modelplane.testing.world.layout import CLASSES, PRIORITIES, class_manifest, happens, selector, template
from modelplane.testing.world.store import ObjectId, id_of
from modelplane.testing.world.world import USER, World

Edit = Callable[[Json], str]


def _some(world: World, kind: str) -> Manifest | None:
    found = list(world.store.all_of(kind))
    return world.random.choice(found) if found else None


def _edit(world: World, item: Manifest | None, edit: Edit) -> str:
    """The object with another spec. `edit` changes a copy of it and says what it did."""
    if item is None:
        return ""
    spec: Json = dict(mapping_at(item, "spec"))
    change = edit(spec)
    world.store.apply({**item, "spec": spec}, USER)
    return f"{id_of(item)}: {change}"


def scale(world: World) -> str:
    def edit(spec: Json) -> str:
        before, spec["replicas"] = spec["replicas"], world.random.randint(0, 4)
        return f"{before} → {spec['replicas']} replicas"

    return _edit(world, _some(world, "ModelDeployment"), edit)


def select(world: World) -> str:
    def edit(spec: Json) -> str:
        region = world.random.choice([None, "east", "west"])
        spec.pop("clusterSelector", None)
        if region:
            spec["clusterSelector"] = {"matchLabels": {"region": region}}
        return f"clusters of {region or 'every region'}"

    return _edit(world, _some(world, "ModelDeployment"), edit)


def change_image(world: World) -> str:
    def edit(spec: Json) -> str:
        image = f"engine:{world.random.randint(2, 99)}"
        spec["workers"] = {**mapping_at(spec, "workers"), "template": template(image)}
        return f"image {image}"

    return _edit(world, _some(world, "ModelDeployment"), edit)


def resize(world: World) -> str:
    def edit(spec: Json) -> str:
        count, product = world.random.choice([1, 2, 4]), world.random.choice([None, "H200", "H100"])
        chosen = {"selectors": [{"cel": selector(product)}]} if product else {}
        spec["nodeSelector"] = {"devices": [{"name": "gpu", "count": count, **chosen}]}
        return f"{count} devices of {product or 'any product'}"

    return _edit(world, _some(world, "ModelDeployment"), edit)


def prioritise(world: World) -> str:
    def edit(spec: Json) -> str:
        priority = world.random.choice([None, *sorted(PRIORITIES)])
        spec.pop("priority", None)
        if priority:
            spec["priority"] = priority
        spec["preemptionPolicy"] = world.random.choice(["Never", "PreemptLowerPriority"])
        return f"priority {priority}, {spec['preemptionPolicy']}"

    return _edit(world, _some(world, "ModelDeployment"), edit)


def recreate(world: World) -> str:
    """Delete and create again under the same name, as soon as the name is free."""
    item = _some(world, "ModelDeployment")
    if item is None:
        return ""
    key, again = id_of(item), _stated(item)
    world.store.delete(key, USER)

    def create() -> None:
        if world.store.get(key) is None:
            world.store.apply(again, USER)
        else:
            world.clock.after(1.0, create)

    world.clock.after(1.0, create)
    return str(key)


def _stated(item: Manifest) -> Json:
    metadata: Json = {"name": name_of(item), "labels": labels_of(item)}
    if namespace_of(item):
        metadata["namespace"] = namespace_of(item)
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata, "spec": item["spec"]}


def _pools(spec: Json) -> list[Json]:
    found = spec["nodePools"]
    return [dict(pool) for pool in found] if isinstance(found, list) else []


def shrink_pool(world: World) -> str:
    def edit(spec: Json) -> str:
        pools = _pools(spec)
        pool = world.random.choice(pools)
        before, pool["nodeCount"] = pool["nodeCount"], world.random.randint(0, 3)
        spec["nodePools"] = pools
        return f"{pool['name']} {before} → {pool['nodeCount']} nodes"

    return _edit(world, _some(world, "InferenceCluster"), edit)


def reclass_pool(world: World) -> str:
    def edit(spec: Json) -> str:
        pools = _pools(spec)
        pool = world.random.choice(pools)
        pool["className"] = world.random.choice(sorted(CLASSES))
        spec["nodePools"] = pools
        return f"{pool['name']} has class {pool['className']}"

    return _edit(world, _some(world, "InferenceCluster"), edit)


def cordon(world: World) -> str:
    def edit(spec: Json) -> str:
        spec["cordoned"] = not spec.get("cordoned")
        return f"cordoned {spec['cordoned']}"

    return _edit(world, _some(world, "InferenceCluster"), edit)


def drain(world: World) -> str:
    """For maintenance, which may end."""
    item = _some(world, "InferenceCluster")

    def edit(spec: Json) -> str:
        spec["drain"] = {"parallelism": world.random.choice([1, 4])}
        return f"drain {spec['drain']}"

    if item is not None and happens(world.random, 0.6):
        world.later(world.random.uniform(5, 60), lambda: _without(world, id_of(item), "drain"))
    return _edit(world, item, edit)


def taint(world: World) -> str:
    item = _some(world, "InferenceCluster")
    effect = world.random.choice(["NoSchedule", "NoExecute"])

    def edit(spec: Json) -> str:
        spec["taints"] = [{"key": "maintenance", "effect": effect}]
        return f"taint {effect}"

    if item is not None and happens(world.random, 0.6):
        world.later(world.random.uniform(5, 60), lambda: _without(world, id_of(item), "taints"))
    return _edit(world, item, edit)


def _without(world: World, key: ObjectId, field: str) -> None:
    known = world.store.get(key)
    if known is not None:
        spec = {name: value for name, value in mapping_at(known, "spec").items() if name != field}
        world.store.apply({**known, "spec": spec}, USER)


def relabel(world: World) -> str:
    item = _some(world, "InferenceCluster")
    if item is None:
        return ""
    region = world.random.choice(["east", "west"])
    world.store.apply(with_metadata(item, labels={**labels_of(item), "region": region}), USER)
    return f"{id_of(item)}: region {region}"


def delete_cluster(world: World) -> str:
    """By force: what runs on it is lost. It may come back under the same name."""
    item = _some(world, "InferenceCluster")
    if item is None:
        return ""
    world.store.purge(id_of(item), USER)
    if happens(world.random, 0.5):
        world.later(world.random.uniform(2, 40), lambda: _create(world, _stated(item)))
        return f"{id_of(item)}, and it comes back"
    return str(id_of(item))


def _create(world: World, item: Json) -> None:
    world.store.apply(item, USER)


def delete_class(world: World) -> str:
    name = world.random.choice(sorted(CLASSES))
    key = ObjectId("InferenceClass", "", name)
    if world.store.get(key) is None:
        return ""
    world.store.purge(key, USER)
    world.later(world.random.uniform(5, 60), lambda: _create(world, class_manifest(name)))
    return name


def garble_class(world: World) -> str:
    name = world.random.choice(sorted(CLASSES))
    garbage = world.random.choice([{"devices": []}, {"devices": "?"}, {"devices": [{"name": 7}]}, {}])
    world.store.apply({**class_manifest(name), "spec": garbage}, USER)
    world.later(world.random.uniform(5, 60), lambda: _create(world, class_manifest(name)))
    return f"{name}: spec {garbage}"
