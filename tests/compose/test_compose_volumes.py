import pytest

from modelplane.api.codec import decode
from modelplane.api.models import CacheMount, ModelCache
from modelplane.compose.context import RenderError, Volume
from modelplane.compose.volumes import claim_name, pod_volumes, volume_mounts, volumes_of


def cache(name: str, namespace: str = "chat", **spec) -> ModelCache:
    return decode(ModelCache, {"metadata": {"name": name, "namespace": namespace}, "spec": {"source": "S3", **spec}})


def mount(name: str, path: str = "/mnt/models") -> CacheMount:
    return CacheMount(name=name, mount_path=path)


def test_weights_and_adapters_never_share_a_path():
    adapter = cache("sql", artifact={"kind": "Adapter"})
    weights = cache("qwen", huggingFace={"repo": "Qwen/Q"})
    found = volumes_of((mount("qwen"), mount("sql")), {"qwen": weights, "sql": adapter})
    assert found == (
        Volume("qwen", "Weights", claim_name(weights), "/mnt/models", repository="Qwen/Q"),
        Volume("sql", "Adapter", claim_name(adapter), "/mnt/adapters/sql"),
    )


def test_two_caches_on_one_path_are_refused():
    with pytest.raises(RenderError, match="a and b are both mounted at /mnt/models"):
        volumes_of((mount("a"), mount("b")), {"a": cache("a"), "b": cache("b")})


def test_claims_of_two_tenants_have_two_names():
    assert claim_name(cache("a", "x")) != claim_name(cache("a", "y"))


def test_an_existing_claim_is_mounted_read_only_at_its_folder():
    existing = {"type": "ExistingPVC", "existingPVC": {"claimName": "nfs", "subPath": "q/8b"}}
    volumes = volumes_of((mount("a"),), {"a": cache("a", storage=existing)})
    assert pod_volumes(volumes) == [
        {"name": "cache-0", "persistentVolumeClaim": {"claimName": "nfs", "readOnly": True}}
    ]
    assert volume_mounts(volumes) == [
        {"name": "cache-0", "mountPath": "/mnt/models", "readOnly": True, "subPath": "q/8b"}
    ]
