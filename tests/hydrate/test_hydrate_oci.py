"""A real registry (Debian's docker-registry), with an image pushed by a real client (skopeo) and artifacts."""

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile

import pytest

from modelplane.hydrate.errors import HydrateError
from tests.support.model_sources import MANIFEST, push, push_manifest, registry_server

pytestmark = pytest.mark.slow
WEIGHTS = hashlib.shake_128(b"oci").digest(1_500_000)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with registry_server(tmp_path_factory.mktemp("registry")) as place:
        yield place


def tar(*members):
    """An archive of (name, content) pairs; a TarInfo goes in as it is."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def oci(registry, rest, **more):
    return {"oci": {"reference": f"http://{registry}/{rest}", **more}}


def test_an_image_pushed_by_skopeo(stage, registry, tmp_path):
    skopeo = shutil.which("skopeo")
    if skopeo is None:
        pytest.skip("skopeo is not installed")
    layers = [
        gzip.compress(tar(("models/config.json", b"{}"), ("models/old.bin", b"old"), ("etc/passwd", b"root"))),
        gzip.compress(tar(("models/.wh.old.bin", b""), ("models/model.safetensors", WEIGHTS))),
    ]
    _oci_folder(tmp_path / "image", layers)
    command = [skopeo, "--insecure-policy", "copy", "--dest-tls-verify=false", "-q"]
    subprocess.run([*command, f"oci:{tmp_path}/image:latest", f"docker://{registry}/acme/image:latest"], check=True)
    marker = stage(oci(registry, "acme/image", subPath="models"))
    assert stage.files() == {"config.json": b"{}", "model.safetensors": WEIGHTS}
    assert marker.revision.startswith("sha256:")
    assert stage(oci(registry, f"acme/image@{marker.revision}", subPath="models")) == marker


def test_artifacts_of_modelpack_and_oras(stage, registry):
    layers = [
        (
            "application/vnd.cncf.model.weight.v1.raw",
            WEIGHTS,
            {"org.cncf.model.filepath": "weights/model.safetensors"},
        ),
        ("application/vnd.cncf.model.weight.config.v1.tar", tar(("config.json", b"{}")), None),
        ("application/octet-stream", b"hello", {"org.opencontainers.image.title": "README.md"}),
    ]
    digest, _ = push(registry, "acme/model", layers)
    marker = stage(oci(registry, "acme/model:v1"))
    assert stage.files() == {"weights/model.safetensors": WEIGHTS, "config.json": b"{}", "README.md": b"hello"}
    assert marker.revision == digest


def test_an_index_gives_the_manifest_of_the_platform(stage, registry):
    kinds = {}
    for name in ("amd64", "arm64"):
        layers = [("application/octet-stream", name.encode(), {"org.opencontainers.image.title": "which"})]
        kinds[name] = push(registry, "acme/multi", layers, tag=name)
    index = {
        "schemaVersion": 2,
        "manifests": [
            {"mediaType": MANIFEST, "digest": digest, "size": size, "platform": {"os": "linux", "architecture": name}}
            for name, (digest, size) in kinds.items()
        ],
    }
    push_manifest(registry, "acme/multi", "all", index, "application/vnd.oci.image.index.v1+json")
    stage(oci(registry, "acme/multi:all", platform="linux/arm64"))
    assert stage.files() == {"which": b"arm64"}
    with pytest.raises(HydrateError, match="has no manifest for linux/s390x"):
        stage(oci(registry, "acme/multi:all", platform="linux/s390x"))


def link(name, kind, target="/etc/passwd"):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


@pytest.mark.parametrize(
    "members",
    [
        [("../evil", b"x")],
        [("/etc/evil", b"x"), ("../../x", b"")],
        [link("a", tarfile.SYMTYPE)],
        [link("a", tarfile.LNKTYPE)],
        [link("a", tarfile.CHRTYPE)],
        [link("a", tarfile.FIFOTYPE)],
        [("a", b"file"), ("a/b", b"below it")],
    ],
)
def test_hostile_archives_are_refused(stage, registry, members):
    push(registry, "acme/evil", [("application/vnd.oci.image.layer.v1.tar", tar(*members), None)])
    with pytest.raises(HydrateError, match=r"not a relative path|not a regular file|a file and a folder"):
        stage(oci(registry, "acme/evil:v1"))
    assert not (stage.root / "revisions").exists()


def test_refusals_name_the_cause(stage, registry):
    with pytest.raises(HydrateError, match="the repository, tag or digest does not exist"):
        stage(oci(registry, "acme/nothing:v1"))
    with pytest.raises(HydrateError, match="is not a registry, a repository"):
        stage({"oci": {"reference": "nothing"}})


def _oci_folder(folder, layers):
    """An image in the OCI layout, which clients push."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def add(content, kind, **more):
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content), **more}

    described = [add(layer, "application/vnd.oci.image.layer.v1.tar+gzip") for layer in layers]
    ids = [f"sha256:{hashlib.sha256(gzip.decompress(layer)).hexdigest()}" for layer in layers]
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ids}}
    entry = add(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json")
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": entry, "layers": described}
    named = {"annotations": {"org.opencontainers.image.ref.name": "latest"}}
    index = {"schemaVersion": 2, "manifests": [add(json.dumps(manifest).encode(), MANIFEST, **named)]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
