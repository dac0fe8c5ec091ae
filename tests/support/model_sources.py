"""Servers that models are fetched from: an S3 server (moto) and a registry (Debian's docker-registry)."""

import hashlib
import json
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager

import pytest

from modelplane.envoy.ports import free_port

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@contextmanager
def s3_server():
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def s3_client(url):
    boto3 = pytest.importorskip("boto3")
    keys = {"aws_access_key_id": "id", "aws_secret_access_key": "secret"}
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)


@contextmanager
def registry_server(folder):
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed")
    place = f"127.0.0.1:{free_port()}"
    config = {
        "version": "0.1",
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder)}},
        "http": {"addr": place},
    }
    (folder / "config.yml").write_text(json.dumps(config))
    process = subprocess.Popen([program, "serve", str(folder / "config.yml")], stderr=subprocess.DEVNULL)
    try:
        _await(place)
        yield place
    finally:
        process.terminate()
        process.wait()


def _await(place):
    for _ in range(100):
        try:
            urllib.request.urlopen(f"http://{place}/v2/").close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the registry does not answer")


def push_blob(registry, repository, content):
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    start = urllib.request.Request(f"http://{registry}/v2/{repository}/blobs/uploads/", method="POST")
    with urllib.request.urlopen(start) as answer:  # noqa: S310  our own registry
        place = answer.headers["Location"]
    url = f"{place}{'&' if '?' in place else '?'}digest={digest}"
    kind = {"Content-Type": "application/octet-stream"}
    upload = urllib.request.Request(url, content, kind, method="PUT")  # noqa: S310  as above
    urllib.request.urlopen(upload).close()  # noqa: S310  as above
    return digest


def push(registry, repository, layers, tag="v1"):
    """Pushes layers of (media type, content, annotations) over the registry's API, as oras does."""
    described = [
        {"mediaType": kind, "digest": push_blob(registry, repository, content), "size": len(content)}
        | ({"annotations": notes} if notes else {})
        for kind, content, notes in layers
    ]
    config = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": push_blob(registry, repository, b"{}")}
    document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": {**config, "size": 2}, "layers": described}
    return push_manifest(registry, repository, tag, document, MANIFEST)


def push_manifest(registry, repository, tag, document, kind):
    url = f"http://{registry}/v2/{repository}/manifests/{tag}"
    body = json.dumps(document).encode()
    urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": kind}, method="PUT")).close()
    return f"sha256:{hashlib.sha256(body).hexdigest()}", len(body)
