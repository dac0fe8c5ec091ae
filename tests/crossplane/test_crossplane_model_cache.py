"""A ModelCache in whole calls, as Crossplane makes them: Objects, and what provider-kubernetes reports of them."""

from modelplane.api.version import __version__
from modelplane.compose.images import ReleaseImages
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.calls import FunctionCall, answer
from tests.compose.caches import NOW, make_cache, make_cluster, make_secret

CACHES = FunctionCaches(images=ReleaseImages(loader="registry.example/modelplane-loader:1"))


def call(cache, composed=None, **required):
    fetched = {"clusters": (make_cluster("east"),), "replicas": (), "caches": (cache,), **required}
    return answer(FunctionCall(cache, composed or {}, fetched), NOW, caches=CACHES)


def reported(found, **by_kind):
    """Objects as the provider reports them: what they apply, with the status that the kind has."""
    return {
        key: {
            **composed.manifest,
            "status": {
                "atProvider": {
                    "manifest": {
                        **composed.manifest["spec"]["forProvider"]["manifest"],
                        **by_kind.get(composed.manifest["spec"]["forProvider"]["manifest"]["kind"], {}),
                    }
                }
            },
        }
        for key, composed in found.resources.items()
        if composed.manifest["kind"] == "Object"
    }


def kinds(found):
    items = (composed.manifest for composed in found.resources.values())
    return sorted(
        item["spec"]["forProvider"]["manifest"]["kind"] if item["kind"] == "Object" else item["kind"] for item in items
    )


def test_a_cache_is_staged_by_the_job_that_the_provider_reports(problems):
    cache = make_cache()
    first = call(cache)
    assert kinds(first) == ["Job", "Namespace", "PersistentVolumeClaim"]
    assert [problems(composed.manifest) for composed in first.resources.values()] == [[]] * 3
    assert not first.ready
    bound = {"PersistentVolumeClaim": {"status": {"phase": "Bound"}}}
    cache = {**cache, "status": dict(first.status)}
    running = call(cache, reported(first, **bound, Job={"status": {"active": 1}}))
    assert running.status["clusters"][0]["phase"] == "Hydrating"
    ended = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    cache = {**cache, "status": dict(running.status)}
    done = call(cache, reported(running, **bound, Job=ended))
    assert (done.ready, kinds(done)) == (True, kinds(first))
    volume = next(item for key, item in done.resources.items() if key.startswith("volume-")).manifest
    metadata = volume["spec"]["forProvider"]["manifest"]["metadata"]
    assert metadata["annotations"] == {"modelplane.ai/staged": "unknown"}
    lost = {name: value for name, value in cache.items() if name != "status"}
    again = call(lost, reported(done, **bound))
    assert (again.ready, kinds(again)) == (True, ["Namespace", "PersistentVolumeClaim"])


def test_a_token_has_no_value_in_any_object():
    spec = {"huggingFace": {"repo": "a/b", "authSecret": {"name": "hf"}}}
    found = call(make_cache(**spec), secret=(make_secret(HF_TOKEN="Y2FuYXJ5"),))
    assert "Secret" in kinds(found)
    assert "Y2FuYXJ5" not in str(found)


def test_a_cluster_that_names_no_image_gets_the_releases():
    fetched = {"clusters": (make_cluster("east"),), "replicas": (), "caches": ()}
    release = FunctionCaches(images=ReleaseImages("registry.example/team"))
    found = answer(FunctionCall(make_cache(), {}, fetched), NOW, caches=release)
    (entry,) = found.status["clusters"]
    assert (entry["phase"], entry["reason"]) == ("Pending", "WaitingForVolume")
    assert f"registry.example/team/modelplane-loader:v{__version__}" in str(found)
