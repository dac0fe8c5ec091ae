import pytest

from modelplane.api.codec import decode
from modelplane.api.models import CacheMount, ModelCache
from modelplane.compose.caching.source import source_of
from modelplane.compose.caching.storage import claim_name
from modelplane.compose.context import RenderError, Volume
from modelplane.compose.volumes import pod_volumes, volume_mounts, volumes_of


def cache(name: str, namespace: str = "chat", **spec) -> ModelCache:
    spec = {"source": "HuggingFace", "huggingFace": {"repo": f"a/{name}"}, **spec}
    return decode(ModelCache, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


def claim(found: ModelCache) -> str:
    return claim_name(found.metadata.namespace, key(found))


def key(found: ModelCache) -> str:
    return source_of(found).key


def mount(name: str, path: str = "/mnt/models") -> CacheMount:
    return CacheMount(name=name, mount_path=path)


def test_weights_and_adapters_never_share_a_path():
    adapter = cache("sql", artifact={"kind": "Adapter"})
    weights = cache("qwen", huggingFace={"repo": "Qwen/Q"}, storage={"sizeGiB": 700})
    found = volumes_of((mount("qwen"), mount("sql")), {"qwen": weights, "sql": adapter})
    assert found == (
        Volume("qwen", "Weights", claim(weights), "/mnt/models", None, "Qwen/Q", None, True, key(weights), 700),
        Volume("sql", "Adapter", claim(adapter), "/mnt/adapters/sql", None, "a/sql", None, True, key(adapter), 1),
    )


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("Weights", None, "/mnt/models"),
        ("Adapter", None, "/mnt/adapters/c"),
        ("Tokenizer", None, "/mnt/artifacts/c"),
        ("Bytes", "/etc/x", "/etc/x"),
    ],
)
def test_where_a_cache_without_a_path_is_mounted(kind, given, expected):
    (found,) = volumes_of((CacheMount(name="c", mount_path=given),), {"c": cache("c", artifact={"kind": kind})})
    assert found.mount_path == expected


def test_a_replica_mounts_the_source_that_it_was_given():
    (found,) = volumes_of((CacheMount(name="c", key="old"),), {"c": cache("c")})
    assert found.claim_name == claim_name("chat", "old")


def test_an_image_is_mounted_as_it_is():
    image = {"reference": "r.example/a:1", "artifact": "Image", "subPath": "w"}
    made = decode(
        ModelCache, {"metadata": {"name": "c"}, "spec": {"source": "OCI", "oci": image, "storage": {"type": "Image"}}}
    )
    volumes = volumes_of((CacheMount(name="c"),), {"c": made})
    assert pod_volumes(volumes) == [
        {"name": "cache-0", "image": {"reference": "r.example/a:1", "pullPolicy": "Always"}}
    ]
    assert volume_mounts(volumes)[0]["subPath"] == "w"


@pytest.mark.parametrize(
    ("reference", "policy"), [("r.example/a:1", "Always"), (f"r.example/a@sha256:{'0' * 64}", "IfNotPresent")]
)
def test_a_digest_is_pulled_once_and_a_tag_again(reference, policy):
    spec = {"source": "OCI", "oci": {"reference": reference, "artifact": "Image"}, "storage": {"type": "Image"}}
    made = decode(ModelCache, {"metadata": {"name": "c"}, "spec": spec})
    ((volume,),) = [pod_volumes(volumes_of((CacheMount(name="c"),), {"c": made}))]
    assert volume["image"] == {"reference": reference, "pullPolicy": policy}


def test_two_caches_on_one_path_are_refused():
    with pytest.raises(RenderError, match="a and b are both mounted at /mnt/models"):
        volumes_of((mount("a"), mount("b")), {"a": cache("a"), "b": cache("b")})


def test_claims_of_two_tenants_have_two_names():
    assert claim(cache("a", "x")) != claim(cache("a", "y"))


def test_an_existing_claim_is_mounted_read_only_at_its_folder():
    existing = {"type": "ExistingPVC", "existingPVC": {"claimName": "nfs", "subPath": "q/8b"}}
    volumes = volumes_of((mount("a"),), {"a": cache("a", storage=existing)})
    assert (volumes[0].staged, volumes[0].size_gib) == (False, 0)
    assert pod_volumes(volumes) == [
        {"name": "cache-0", "persistentVolumeClaim": {"claimName": "nfs", "readOnly": True}}
    ]
    assert volume_mounts(volumes) == [
        {"name": "cache-0", "mountPath": "/mnt/models", "readOnly": True, "subPath": "q/8b"}
    ]
