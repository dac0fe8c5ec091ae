"""`modelplane debug-bundle`: what is in the archive, and what is nowhere in it."""

import asyncio
import base64
import gzip
import json
import ssl
import stat
import tarfile
import zlib
from pathlib import Path

import pytest
import yaml

from modelplane.api.definitions import definitions
from modelplane.api.objects import API_VERSION
from modelplane.cli import main
from modelplane.cli.debug_bundle import BundleFile, BundleReader, archive_bytes, bundle_files
from modelplane.cli.running import RunningPlane
from modelplane.compose.revisions import pack
from modelplane.kube.kinds import GroupVersionResource
from tests.support.kube_api import KubeApi

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
SECRETS, CONFIG_MAPS, EVENTS = (GroupVersionResource("", "v1", name) for name in ("secrets", "configmaps", "events"))
NOW_S = 1_800_000_000.0
PLANTED = (
    "secret", "config", "applied", "copied", "variable", "revision", "flag", "word", "prompt", "signature", "event",
    "chart", "header", "bearer",
)  # fmt: skip
CANARY = {name: f"cnry{number:02d}x{number * 7919:08x}" for number, name in enumerate(PLANTED)}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
NO_LOGS = "logs: those of a control plane on Kubernetes are its pods'; `kubectl logs` shows them"
NO_ROUTERS = "routers: a kubeconfig does not say where their side doors are"
FILES = [
    "README.md",
    "events.yaml",
    "objects/inferenceclasses.modelplane.ai.yaml",
    "objects/inferenceclusters.modelplane.ai.yaml",
    "objects/inferencegateways.modelplane.ai.yaml",
    "objects/modelcaches.modelplane.ai.yaml",
    "objects/modeldeployments.modelplane.ai.yaml",
    "objects/modelservices.modelplane.ai.yaml",
    "status.txt",
    "top.txt",
    "trace.txt",
    "version.txt",
]


def manifests():
    found = [item for path in sorted(QUICKSTART.glob("*.yaml")) for item in yaml.safe_load_all(path.read_text())]
    by_kind = {item["kind"]: item for item in found}
    plant_deployment(by_kind["ModelDeployment"])
    values = {"auth": {"password": CANARY["chart"]}}
    by_kind["InferenceCluster"]["spec"]["software"] = {"overrides": [{"name": "keda", "values": values}]}
    source = {"files": [{"url": f"https://weights.example/a?sig={CANARY['signature']}", "path": "a"}]}
    cache = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelCache",
             "metadata": {"name": "weights", "namespace": "default"},
             "spec": {"source": "HTTP", "http": source, "storage": {"sizeGiB": 1}}}  # fmt: skip
    return [*found, cache]


def plant_deployment(item):
    item["metadata"]["annotations"] = {
        LAST_APPLIED: json.dumps({"spec": {"env": [{"name": "HF_TOKEN", "value": CANARY["applied"]}]}}),
        "tool.example/original": base64.b64encode(CANARY["copied"].encode()).decode(),
    }
    engine = item["spec"]["workers"]["template"]["spec"]["containers"][0]
    engine["args"] += ["--api-key", CANARY["word"], f"--hf-token={CANARY['flag']}"]
    engine["env"] = [
        {"name": "PROVIDER_KEY", "value": CANARY["variable"]},
        {"name": "NCCL_DEBUG", "value": "INFO"},
    ]
    headers = [{"name": "Authorization", "value": f"Basic {CANARY['header']}"}]
    engine["readinessProbe"] = {"httpGet": {"path": "/health", "port": 8000, "httpHeaders": headers}}
    item["spec"]["warmUp"] = {"requests": [{"path": "/v1/x", "body": json.dumps({"prompt": CANARY["prompt"]})}]}
    old = pack({"workers": {"env": [{"name": "PROVIDER_KEY", "value": CANARY["revision"]}]}})
    item["status"] = {"revisions": [{"revision": 1, "hash": "a", "template": old}]}


def planted():
    api = KubeApi()
    by_kind = {each.kind: each for each in definitions().values()}
    for item in manifests():
        each = by_kind[item["kind"]]
        api.put(GroupVersionResource(each.group, each.version, each.plural), item)
    encoded = base64.b64encode(CANARY["secret"].encode()).decode()
    api.put(SECRETS, {"metadata": {"name": "hf-token", "namespace": "default"}, "data": {"a": encoded}})
    api.put(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "default"}, "data": {"a": CANARY["config"]}})
    message = f"it printed {CANARY['variable']}, TOKEN={CANARY['event']} and Bearer {CANARY['bearer']}"
    about = {"kind": "ModelDeployment", "namespace": "default", "name": "qwen3-8b"}
    api.put(EVENTS, {"metadata": {"name": "e", "namespace": "default"}, "message": message, "involvedObject": about})
    return api


def bundle(api, reader, **options):
    async def found():
        async with api.serving():
            plane = RunningPlane(api.url, "the-token-of-the-api", ssl.create_default_context())
            return await asyncio.to_thread(bundle_files, plane, None, reader, now_s=NOW_S, **options)

    return asyncio.run(found())


def unpacked(text):
    """With what is compressed in it, as a revision is."""
    for word in text.split():
        try:
            text += zlib.decompress(base64.b64decode(word, validate=True)).decode()
        except (ValueError, zlib.error):
            continue
    return text


def canaries_in(text):
    """Names of the canaries in a text, as they are, compressed, or in base64 at any of the three offsets."""
    text = unpacked(text)
    return {
        name
        for name, value in CANARY.items()
        if value in text
        or any(base64.b64encode(b"x" * lead + value.encode()).decode()[4:20] in text for lead in (1, 2, 3))
    }


def test_no_file_has_a_credential_or_a_prompt():
    api, reader = planted(), BundleReader()
    files = {file.path: file.text for file in bundle(api, reader)}
    assert list(files) == FILES
    assert {path: found for path, text in files.items() if (found := canaries_in(text))} == {}
    assert [path for path, text in files.items() if "the-token-of-the-api" in text] == []
    assert {resource for _, _, resource in api.used} & {"secrets", "configmaps", "pods"} == set()
    assert reader.missing == [NO_LOGS, NO_ROUTERS]


def test_every_canary_would_be_found():
    """The search itself, on what the API holds."""
    everything = [*manifests(), CANARY["secret"], CANARY["config"], CANARY["event"], CANARY["bearer"]]
    assert canaries_in(yaml.safe_dump_all(everything, width=10**6)) == set(CANARY)


def test_what_helps_is_there():
    files = {file.path: file.text for file in bundle(planted(), BundleReader())}
    (deployment,) = yaml.safe_load_all(files["objects/modeldeployments.modelplane.ai.yaml"])
    engine = deployment["spec"]["workers"]["template"]["spec"]["containers"][0]
    assert engine["args"][-5:] == ["--max-model-len", "32768", "--api-key", "<masked>", "--hf-token=<masked>"]
    assert engine["env"] == [
        {"name": "PROVIDER_KEY", "value": "<masked>"},
        {"name": "NCCL_DEBUG", "value": "INFO"},
    ]
    clusters = yaml.safe_load_all(files["objects/inferenceclusters.modelplane.ai.yaml"])
    assert [item["metadata"]["name"] for item in clusters] == ["east", "west"]
    assert "it printed <masked>, TOKEN=<masked> and Bearer <masked>" in files["events.yaml"]
    assert {path: path.partition(".")[0] for path in FILES if path.endswith(".txt") and not files[path]} == {}
    assert files["trace.txt"].startswith("# namespace default\nOBJECT ")
    assert "at 2027-01-15T08:00:00Z.\n" in files["README.md"]
    assert f"## Not read\n\n- {NO_LOGS}\n" in files["README.md"]


def test_what_may_not_be_read_is_a_line_and_no_failure():
    api, reader = planted(), BundleReader()
    api.refusals["list"] = 403
    files = {file.path: file.text for file in bundle(api, reader)}
    kinds = [f"{each.plural}.{each.group}: told to refuse" for each in definitions().values()]
    assert reader.missing == [*kinds, "events: told to refuse", NO_LOGS, NO_ROUTERS]
    assert all(f"- {line}\n" in files["README.md"] for line in reader.missing)


def test_a_control_plane_that_does_not_answer_is_one_line(tmp_path, capsys):
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "the-token-of-the-user"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    archive = tmp_path / "out.tar.gz"
    assert main(["debug-bundle", "--kubeconfig", str(tmp_path / "config"), "-o", str(archive)]) == 0
    found = contents(archive)
    assert list(found) == ["modelplane-debug/README.md", "modelplane-debug/version.txt"]
    assert (
        "- objects and events: the plane at https://127.0.0.1:1 is unreachable" in found["modelplane-debug/README.md"]
    )
    assert "the-token-of-the-user" not in "".join(found.values())
    said = capsys.readouterr()
    assert said.out == f"{archive}: 2 files, {archive.stat().st_size} bytes\n"
    assert said.err == "parts that were not read: 3; its README.md says why\n"


def contents(archive):
    with tarfile.open(archive) as opened:
        return {name: opened.extractfile(name).read().decode() for name in opened.getnames()}


def test_the_logs_of_a_plane_that_has_stopped_are_there(tmp_path, capsys):
    (tmp_path / "envoy").mkdir()
    (tmp_path / "plane.db").touch()
    (tmp_path / "envoy" / "envoy.log").write_text(f"first {'x' * (1 << 20)}\nlast API_KEY={CANARY['flag']}\n")
    archive = tmp_path / "out.tar.gz"
    archive.touch(mode=0o644)
    assert main(["debug-bundle", "--data", str(tmp_path), "-o", str(archive)]) == 0
    assert contents(archive)["modelplane-debug/logs/envoy.log"] == "last API_KEY=<masked>\n"
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob("*out*")] + [path.name for path in tmp_path.glob(".*out*")] == [
        "out.tar.gz"
    ]
    assert capsys.readouterr().err == "parts that were not read: 3; its README.md says why\n"
    readme = contents(archive)["modelplane-debug/README.md"]
    assert "- routers: none runs with the data folder\n" in readme


@pytest.mark.parametrize("words", [[], ["-o", "missing/out.tar.gz"]])
def test_where_there_is_no_plane_nothing_is_written(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["debug-bundle", "--data", str(tmp_path), *words]) == 1
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err.startswith("modelplane debug-bundle: no plane runs with the data folder ")


def test_equal_files_give_equal_bytes():
    files = [BundleFile("README.md", "a\n"), BundleFile("objects/b.yaml", "é\n")]
    assert archive_bytes(files) == archive_bytes(list(files))
    assert gzip.decompress(archive_bytes(files)).startswith(b"modelplane-debug/README.md\0")


def test_one_namespace_and_what_has_none():
    api, reader = planted(), BundleReader()
    other = {"apiVersion": API_VERSION, "kind": "ModelService", "metadata": {"name": "other", "namespace": "elsewhere"}}
    api.put(GroupVersionResource("modelplane.ai", "v1alpha1", "modelservices"), {**other, "spec": {"endpoints": []}})
    files = {file.path: file.text for file in bundle(api, reader, namespace="default")}
    assert "objects/inferenceclusters.modelplane.ai.yaml" in files
    assert "name: chat" in files["objects/modelservices.modelplane.ai.yaml"]
    assert [path for path, text in files.items() if "elsewhere" in text] == []
    assert reader.missing == ["logs and routers: they are of all namespaces, and this bundle is of default"]


def test_a_namespace_that_has_nothing_is_said():
    reader = BundleReader()
    bundle(planted(), reader, namespace="defualt")
    assert reader.missing[0] == "namespace defualt: nothing of Modelplane is in it"
