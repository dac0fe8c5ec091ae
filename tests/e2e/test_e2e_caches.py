"""One plane with a cache from every source, each a real server of this machine, and a model with two adapters.

Weights come from a hub with a token, adapters from a bucket with credentials and from one by the S3 interface of GCS,
other files from a registry, a URL and a ConfigMap. A request by an adapter's name is answered by it.
"""

import json
from contextlib import ExitStack

import openai
import pytest
import yaml

from tests.support.file_server import file_server
from tests.support.hub_server import HubServer
from tests.support.model_sources import push, registry_server, s3_client, s3_server

WEIGHTS = {"config.json": b'{"model_type": "qwen3"}', "model.safetensors": b"weights" * 50_000}
API = {"apiVersion": "modelplane.ai/v1alpha1"}


def cache(name, kind, source, block, fields):
    spec = {"artifact": {"kind": kind}, "source": source, block: fields, "storage": {"sizeGiB": 1}}
    return {**API, "kind": "ModelCache", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def model(caches):
    gpu = {"name": "gpu", "count": 1, "selectors": [{"cel": 'device.driver == "gpu.nvidia.com"'}]}
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.27.1", "args": ["--served-model-name", "tiny"]}
    spec = {
        "replicas": 1,
        "labels": {"app": "tiny"},
        "caches": [{"name": name} for name in caches],
        "nodeSelector": {"devices": [gpu]},
        "workers": {"engine": "vLLM", "template": {"spec": {"containers": [container]}}},
    }
    service = {"endpoints": [{"selector": {"matchLabels": {"app": "tiny"}}}]}
    yield {**API, "kind": "ModelDeployment", "metadata": {"name": "tiny", "namespace": "default"}, "spec": spec}
    yield {**API, "kind": "ModelService", "metadata": {"name": "tiny", "namespace": "default"}, "spec": service}


def sources(stack, folder):
    """Manifests of caches, with what they are fetched from running."""
    hub = HubServer(stack.enter_context(file_server()), stack.enter_context(file_server()), "acme/tiny", token="hf_x")
    hub.commit(WEIGHTS)
    files = stack.enter_context(file_server())
    place = stack.enter_context(registry_server(folder))
    push(place, "acme/prompts", [("text/plain", b"Be short.", {"org.cncf.model.filepath": "prompt.txt"})])
    s3 = stack.enter_context(s3_server())
    client = s3_client(s3)
    for bucket, access in (("private", "private"), ("public", "public-read")):
        client.create_bucket(Bucket=bucket)
        client.put_object(Bucket=bucket, Key="lora/adapter_config.json", Body=b"{}", ACL=access)
    keys = {"access_key": "id", "secret_key": "secret", "HF_TOKEN": "hf_x"}
    meta = {"name": "keys", "namespace": "default"}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": keys}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"chat.jinja": "{{ messages }}"}}
    gated = {"repo": "acme/tiny", "endpoint": hub.url, "authSecret": {"name": "keys"}}
    yield cache("tiny", "Weights", "HuggingFace", "huggingFace", gated)
    fields = {"prefix": "lora/", "endpoint": s3}
    yield cache("sql", "Adapter", "S3", "s3", {"bucket": "private", **fields, "secretRef": {"name": "keys"}})
    yield cache("rust", "Adapter", "GCS", "gcs", {"bucket": "public", **fields, "anonymous": True})
    yield cache("prompts", "Bytes", "OCI", "oci", {"reference": f"http://{place}/acme/prompts:v1"})
    yield cache("tokenizer", "Tokenizer", "HTTP", "http", {"url": files.add("/tokenizer.json", b"{}")})
    yield cache("template", "Bytes", "ConfigMap", "configMap", {"name": "keys"})


CACHES = ("tiny", "sql", "rust", "prompts", "tokenizer", "template")


@pytest.mark.timeout(300)
@pytest.mark.submission
def test_a_cache_from_every_source_and_a_request_for_an_adapter(up, tmp_path):
    folder = tmp_path / "registry"
    folder.mkdir()
    gateway = {**API, "kind": "InferenceGateway", "metadata": {"name": "default"}}
    gateway["spec"] = {"backend": "EnvoyGateway", "outbound": {"allow": ["127.0.0.1/32"]}}
    with ExitStack() as stack:
        manifests = [gateway, *sources(stack, folder), *model(CACHES)]
        (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(manifests))
        plane = up("--router", "--clusters", "1", "-f", tmp_path / "all.yaml")
        plane.ready("modeldeployment/tiny", "modelservice/tiny")
    staged = {item["metadata"]["name"]: item["status"]["clusters"][0] for item in plane.objects("modelcaches")}
    assert {name: entry["phase"] for name, entry in staged.items()} == dict.fromkeys(CACHES, "Ready")
    assert len(staged["tiny"]["resolvedDigest"]) == 40
    code, said = plane.modelplane("cache", "list", "-o", "json")
    rows = {row["name"]: (row["staged"], row["source"].split()[0]) for row in json.loads(said)}
    kinds = ("HuggingFace", "S3", "GCS", "OCI", "HTTP", "ConfigMap")
    assert (code, rows) == (0, {name: ("1/1", kind) for name, kind in zip(CACHES, kinds, strict=True)})
    names = {"default/tiny", "sql", "rust"}
    with openai.OpenAI(base_url=f"{plane.gateway}/v1", api_key="unused", max_retries=0) as client:
        plane.until(lambda: names <= {each.id for each in client.models.list()}, seconds=60)
        for name in ("sql", "default/tiny:rust", "default/tiny"):
            answer = client.completions.create(model=name, prompt="hello", max_tokens=4)
            assert answer.usage.completion_tokens == 4
        with pytest.raises(openai.NotFoundError):
            client.completions.create(model="default/tiny:cobol", prompt="hello", max_tokens=4)
