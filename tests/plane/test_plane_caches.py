"""Caches on the embedded plane: staged by Jobs, waited for by deployments, and fetched by the real loader."""

import asyncio
import base64
import json
import os
import socket
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from modelplane.api.errors import NotFoundError
from modelplane.api.objects import GROUP, name_of, text_at
from modelplane.hydrate import CacheVolume
from modelplane.hydrate.peer_server import PeerServer
from modelplane.reconcile.clock import SystemClock
from modelplane.reconcile.store import ObjectRef, ref_of
from modelplane.sim.cluster import ClusterSettings
from modelplane.sim.commands.command import SimCommand
from modelplane.sim.commands.verbs import perform
from modelplane.testing.clock import run_virtual
from tests.support.file_server import file_server
from tests.support.local_fleet import running_fleet
from tests.support.waiting import until

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
CACHE = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelCache",
    "metadata": {"name": "qwen", "namespace": "default"},
    "spec": {"source": "Inline", "inline": {"filename": "config.json", "content": "{}"}},
}
DEPLOYMENT = ObjectRef(GROUP, "ModelDeployment", "default", "qwen3-8b")


def platform():
    for path in sorted(EXAMPLES.glob("[12]*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def deployment(**cache):
    made = next(yaml.safe_load_all((EXAMPLES / "3-model.yaml").read_text()))
    made["spec"]["caches"] = [{"name": "qwen", **cache}]
    return made


def virtually(story):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in platform():
                fleet.plane.create(manifest)
            await clock.sleep(5)
            await story(fleet, clock)

    run_virtual(main)


def phases(fleet):
    found = fleet.get("ModelCache", "qwen", "default").get("status", {}).get("clusters", ())
    return {entry["name"]: (entry["phase"], entry["reason"]) for entry in found}


def reason(fleet):
    return fleet.get("ModelDeployment", "qwen3-8b", "default")["status"]["reason"]


def test_replicas_hold_no_devices_until_their_weights_are_there():
    async def story(fleet, clock):
        fleet.plane.create(CACHE)
        fleet.plane.create(deployment())
        await clock.sleep(1)
        assert (fleet.replicas(), reason(fleet)) == ({}, "CacheStaging")
        await clock.sleep(20)
        assert phases(fleet) == {"east": ("Ready", "Staged"), "west": ("Ready", "Staged")}
        assert fleet.replicas() == {("east", 0): "True", ("west", 0): "True"}
        assert [item for name in ("east", "west") for item in _jobs(fleet, name)] == []

    virtually(story)


def test_a_replica_starts_at_once_where_the_cache_is_only_preferred():
    async def story(fleet, clock):
        fleet.plane.create(CACHE)
        fleet.plane.create(deployment(policy="Preferred"))
        await clock.sleep(1)
        assert len(fleet.replicas()) == 2
        await clock.sleep(20)
        mounts = [item["spec"].get("caches") for item in fleet.plane.list(GROUP, "ModelReplica")]
        assert (mounts, set(fleet.replicas().values())) == ([None, None], {"True"})

    virtually(story)


def test_weights_of_another_source_reach_replicas_one_at_a_time():
    async def story(fleet, clock):
        fleet.plane.create(CACHE)
        fleet.plane.create(deployment())
        await clock.sleep(30)
        cache = fleet.get("ModelCache", "qwen", "default")
        fleet.plane.replace({**cache, "spec": {**cache["spec"], "inline": {"filename": "config.json", "content": "2"}}})
        fewest = 2
        for _ in range(200):
            await clock.sleep(0.5)
            fewest = min(fewest, sum(state == "True" for state in fleet.replicas().values()))
        keys = {item["spec"]["caches"][0]["key"] for item in fleet.plane.list(GROUP, "ModelReplica")}
        assert keys == {fleet.get("ModelCache", "qwen", "default")["status"]["key"]}
        assert (fewest, set(fleet.replicas().values())) == (1, {"True"})

    virtually(story)


def test_a_cache_that_is_mounted_is_not_deleted_and_leaves_nothing_behind_afterwards():
    async def story(fleet, clock):
        fleet.plane.create(CACHE)
        fleet.plane.create(deployment())
        await clock.sleep(30)
        fleet.plane.delete(ObjectRef(GROUP, "ModelCache", "default", "qwen"))
        await clock.sleep(5)
        assert phases(fleet) == {"east": ("Ready", "Staged"), "west": ("Ready", "Staged")}
        fleet.plane.delete(DEPLOYMENT)
        await clock.sleep(120)
        assert fleet.plane.list(GROUP, "ModelCache") == ()
        claims = [
            fleet.database.store(f"cluster/{name}").list("", "PersistentVolumeClaim") for name in ("east", "west")
        ]
        assert claims == [(), ()]

    virtually(story)


def test_a_claim_that_somebody_deleted_is_made_and_filled_anew():
    async def story(fleet, clock):
        fleet.plane.create(CACHE)
        await clock.sleep(30)
        store = fleet.database.store("cluster/east")
        (before,) = store.list("", "PersistentVolumeClaim")
        store.delete(ref_of(before))
        seen = set()
        for _ in range(60):
            await clock.sleep(0.5)
            seen.add(phases(fleet)["east"])
        (after,) = store.list("", "PersistentVolumeClaim")
        marks = after["metadata"]["annotations"]
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert marks["modelplane.ai/staged-on"] == after["metadata"]["uid"]
        assert {("Hydrating", "Hydrating"), ("Ready", "Staged")} <= seen
        assert phases(fleet)["east"] == ("Ready", "Staged")

    virtually(story)


def test_the_real_loader_fills_the_folder_of_each_volume(tmp_path):
    async def main():
        settings = ClusterSettings(volumes=tmp_path, pull_s=0.1, load_s=0.1, probe_s=0.1)
        async with running_fleet(SystemClock(), settings=settings) as fleet:
            for manifest in platform():
                fleet.plane.create(manifest)
            await until(lambda: fleet.is_ready("east") and fleet.is_ready("west"))
            fleet.plane.create(CACHE)
            fleet.plane.create(deployment())
            await until(lambda: fleet.replicas() == {("east", 0): "True", ("west", 0): "True"})
            await until(lambda: phases(fleet).get("west") == ("Ready", "Staged"))
            for name in ("east", "west"):
                (volume,) = (tmp_path / name).iterdir()
                marker = json.loads((volume / ".modelplane" / "complete.json").read_text())
                assert (volume / "config.json").read_text() == "{}"
                assert [entry["path"] for entry in marker["files"]] == ["config.json"]
            entries = fleet.get("ModelCache", "qwen", "default")["status"]["clusters"]
            assert {entry["resolvedDigest"] for entry in entries} == {marker["revision"]}
            cluster = fleet.clusters.declared("east")
            broken = {**cluster["metadata"], "annotations": {"sim.modelplane.ai/sources": "broken=Unauthorized"}}
            fleet.plane.replace({**cluster, "metadata": broken})
            await asyncio.sleep(0.2)
            cache = fleet.get("ModelCache", "qwen", "default")
            other = {**cache["spec"], "inline": {"filename": "config.json", "content": "2"}}
            fleet.plane.replace({**cache, "spec": other})
            await until(lambda: phases(fleet)["east"] == ("Failed", "Unauthorized"))
            await until(lambda: phases(fleet)["west"] == ("Ready", "Staged"))
            fleet.plane.create(_other_cache())
            fleet.plane.create(_other_deployment())
            said = "cache other cannot be staged here: Unauthorized: the source answers 401"
            await until(lambda: said in _status_of(fleet).get("message", ""))
            assert _status_of(fleet)["reason"] == "CacheFailed"
            assert not [item for item in fleet.plane.list(GROUP, "ModelReplica") if "other" in name_of(item)]

    asyncio.run(main())


def test_no_engine_starts_on_a_volume_that_was_emptied_and_it_is_staged_again(tmp_path):
    """The source is broken first, so that what the pods say can be seen."""

    async def main():
        settings = ClusterSettings(
            volumes=tmp_path, pull_s=0.1, load_s=0.1, probe_s=0.1, restart_backoff_s=1, restart_backoff_most_s=1
        )
        async with running_fleet(SystemClock(), settings=settings) as fleet:
            for manifest in platform():
                if manifest["metadata"]["name"] != "west":
                    fleet.plane.create(manifest)
            fleet.plane.create(CACHE)
            one = deployment()
            fleet.plane.create({**one, "spec": {**one["spec"], "replicas": 1}})
            await until(lambda: fleet.replicas() == {("east", 0): "True"})
            (volume,) = (tmp_path / "east").iterdir()
            for name, message in (("other", "no volume of ModelCache other"), ("team/qwen", "no namespace team")):
                with pytest.raises(NotFoundError, match=f"cluster east has {message}"):
                    perform(fleet.clusters, SimCommand("empty-volume", "east", name))
            assert perform(fleet.clusters, SimCommand("empty-volume", "east", "qwen")).startswith("the volume of qwen")
            assert list(volume.iterdir()) == []
            _set_sources(fleet, "broken=Unauthorized")
            fleet.database.store("cluster/east").delete(ref_of(next(_engine_pods(fleet))))
            await until(lambda: reason(fleet) == "CacheIncomplete")
            assert "/mnt/models: the volume is empty or its staging did not end" in _message(fleet)
            assert _message(fleet).endswith("; the cache is staged again, then its pods start")
            await until(lambda: phases(fleet)["east"] == ("Failed", "Unauthorized"))
            _set_sources(fleet, None)
            retry = {**fleet.get("ModelCache", "qwen", "default")}
            retry["metadata"] = {**retry["metadata"], "annotations": {"modelplane.ai/retry": "1"}}
            fleet.plane.replace(retry)
            await until(lambda: phases(fleet)["east"] == ("Ready", "Staged"))
            await until(lambda: fleet.replicas() == {("east", 0): "True"})
            assert (volume / "config.json").read_text() == "{}"

    asyncio.run(main())


def _set_sources(fleet, faults):
    cluster = fleet.clusters.declared("east")
    kept = {**cluster["metadata"].get("annotations", {}), "sim.modelplane.ai/sources": faults}
    found = {name: value for name, value in kept.items() if value is not None}
    fleet.plane.replace({**cluster, "metadata": {**cluster["metadata"], "annotations": found}})


def _engine_pods(fleet):
    return (pod for pod in fleet.pods("east") if text_at(pod, "metadata", "labels", "modelplane.ai/engine"))


def _message(fleet):
    return fleet.get("ModelDeployment", "qwen3-8b", "default")["status"]["message"]


def _other_cache():
    """Where only the source of east, which is broken, is asked."""
    spec = {**CACHE["spec"], "inline": {"filename": "a", "content": "b"}}
    spec["clusterSelector"] = {"matchLabels": {"region": "us-east"}}
    return {**CACHE, "metadata": {"name": "other", "namespace": "default"}, "spec": spec}


def _other_deployment():
    made = deployment()
    made["metadata"] = {**made["metadata"], "name": "other"}
    made["spec"] = {**made["spec"], "clusterSelector": {"matchLabels": {"region": "us-east"}}}
    made["spec"]["caches"] = [{"name": "other"}]
    return made


def _status_of(fleet):
    return fleet.get("ModelDeployment", "other", "default").get("status", {})


def test_a_server_of_this_machine_needs_permission_and_progress_is_shown(tmp_path):
    files, volumes = tmp_path / "files", tmp_path / "volumes"
    files.mkdir()
    (files / "model.safetensors").write_bytes(os.urandom(32 << 20))

    async def main(port):
        settings = ClusterSettings(volumes=volumes, pull_s=0.1, load_s=0.1, probe_s=0.1)
        async with running_fleet(SystemClock(), settings=settings) as fleet:
            for manifest in platform():
                if manifest["metadata"]["name"] == "west":
                    continue
                fleet.plane.create(manifest)
            url = f"http://127.0.0.1:{port}"
            spec = {"source": "HTTP", "http": {"url": f"{url}/model.safetensors"}, "storage": {"sizeGiB": 1}}
            fleet.plane.create({**CACHE, "spec": spec})
            await until(lambda: phases(fleet).get("east") == ("Failed", "OutboundRefused"))
            gateway = fleet.get("InferenceGateway", "default")
            fleet.plane.replace({**gateway, "spec": {**gateway["spec"], "outbound": {"allow": ["127.0.0.0/8"]}}})
            seen = set()
            await until(lambda: _noted(fleet, seen) == ("Ready", "Staged"))
            assert any(0 < staged < total == 32 << 20 for staged, total in seen if total)
            cache = fleet.get("ModelCache", "qwen", "default")
            fleet.plane.replace({**cache, "spec": {**spec, "http": {"url": f"{url}/missing"}}})
            await until(lambda: phases(fleet)["east"] == ("Failed", "SourceNotFound"))

    handler = partial(_SlowHandler, directory=files)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asyncio.run(main(server.server_address[1]))
        server.shutdown()


def test_a_relay_fetches_from_the_source_once(tmp_path):
    content, token = os.urandom(3 << 20), tmp_path / "token"
    token.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def main(url):
        settings = ClusterSettings(volumes=tmp_path, pull_s=0.1, load_s=0.1, probe_s=0.1)
        async with running_fleet(SystemClock(), settings=settings) as fleet:
            for manifest in platform():
                if manifest["kind"] == "InferenceGateway":
                    manifest["spec"]["outbound"] = {"allow": ["127.0.0.1/32"]}
                fleet.plane.create(manifest)
            meta = {"name": "relay", "namespace": "default"}
            data = {"token": base64.b64encode(b"secret").decode()}
            fleet.plane.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})
            relay = {"cluster": "east", "url": f"http://127.0.0.1:{port}", "authSecretRef": {"name": "relay"}}
            spec = {"source": "HTTP", "http": {"url": url}, "storage": {"sizeGiB": 1}, "relay": relay}
            fleet.plane.create({**CACHE, "spec": spec})
            await until(lambda: phases(fleet).get("east") == ("Ready", "Staged"))
            assert phases(fleet)["west"][0] in {"Pending", "Hydrating"}
            (volume,) = (tmp_path / "east").iterdir()
            # The platform's way to the Service of the relay; its simulated pod answers nobody.
            peer = PeerServer(CacheVolume(volume), token)
            serving = asyncio.create_task(peer.serve("127.0.0.1", port, None, lambda *_: None))
            await until(lambda: phases(fleet)["west"] == ("Ready", "Staged"))
            serving.cancel()
            markers = [next((tmp_path / name).iterdir()) / ".modelplane" / "complete.json" for name in ("east", "west")]
            east, west = (json.loads(path.read_text()) for path in markers)
            assert (east["key"], east["files"]) == (west["key"], west["files"])
            pods = [text_at(pod, "metadata", "labels", "modelplane.ai/relay") for pod in fleet.pods("east")]
            assert pods == ["qwen"]

    with file_server() as server:
        asyncio.run(main(server.add("/model.bin", content)))
        assert server.sent < 2 * len(content), "the source was read once"


class _SlowHandler(SimpleHTTPRequestHandler):
    def copyfile(self, source, outputfile):
        try:
            while block := source.read(1 << 20):
                outputfile.write(block)
                time.sleep(0.08)
        except ConnectionError:
            pass  # the loader reads a first byte and hangs up

    def log_message(self, *_words):
        pass


def _noted(fleet, seen):
    """The phase of the cache on east; what it says of bytes is noted."""
    (entry,) = fleet.get("ModelCache", "qwen", "default")["status"]["clusters"]
    seen.add((entry.get("stagedBytes", 0), entry.get("totalBytes", 0)))
    return entry["phase"], entry["reason"]


def _jobs(fleet, cluster):
    return fleet.database.store(f"cluster/{cluster}").list("batch", "Job")
