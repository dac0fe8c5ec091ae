import pytest

from modelplane.api.labels import REVISION
from modelplane.api.meta import Key, ObjectMeta, Uid
from modelplane.api.models import CacheMount, ModelReplica, ModelReplicaSpec
from modelplane.compose.cache_mounts import cache_mounts
from modelplane.compose.lowering import Lowered, LoweredCache
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import CacheInfo, PlacedReplica

PLACED = PlacedReplica(deployment=Key("team", "d", Uid("")), cluster="east", index=0, assignments=())


def lowered(*, preferred=False, revision="1"):
    return Lowered((), "Unified", labels={REVISION: revision}, caches=(LoweredCache("w", None, preferred),))


def before(*mounts, revision="1"):
    metadata = ObjectMeta(name="r", namespace="team", labels={REVISION: revision})
    return ModelReplica(metadata=metadata, spec=ModelReplicaSpec(cluster_name="east", caches=mounts, engines=()))


def info(**fields):
    return CacheInfo(namespace="team", name="w", **{"key": "new", **fields})


MOUNT, OLD = CacheMount(name="w", key="new"), CacheMount(name="w", key="old")
STAGED = {"staged": frozenset({"east"})}


@pytest.mark.parametrize(
    ("wanted", "cache", "seen", "expected"),
    [
        pytest.param(lowered(), info(), None, (MOUNT,), id="not staged yet: what will be"),
        pytest.param(lowered(), info(**STAGED), None, (MOUNT,), id="staged"),
        pytest.param(lowered(), info(**STAGED, keys={"east": "old"}), None, (OLD,), id="the old one until it is there"),
        pytest.param(lowered(), info(**STAGED), before(OLD), (MOUNT,), id="switched"),
        pytest.param(lowered(), None, before(OLD), (OLD,), id="a cache that is missing changes nothing"),
        pytest.param(lowered(), info(fault="?"), before(OLD), (OLD,), id="nor does one that cannot be read"),
        pytest.param(lowered(preferred=True), info(), None, (), id="preferred and not there: without it"),
        pytest.param(lowered(preferred=True), info(**STAGED), None, (MOUNT,), id="preferred and there"),
        pytest.param(lowered(preferred=True), info(**STAGED), before(), (), id="a replica without it stays so"),
        pytest.param(
            lowered(preferred=True, revision="2"), info(**STAGED), before(), (MOUNT,), id="until its next revision"
        ),
    ],
)
def test_what_a_replica_mounts(wanted, cache, seen, expected):
    fleet = Fleet.of(caches=(cache,) if cache is not None else ())
    assert cache_mounts("team", wanted, PLACED, fleet, seen) == expected
