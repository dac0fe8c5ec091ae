"""A hub whose answers huggingface_hub itself accepts; its client is the oracle for files and layout."""

import errno
import os
from pathlib import Path

import pytest

from modelplane.api.reasons import Reason
from modelplane.hydrate import HydrationOptions
from modelplane.hydrate.credentials import MountedSecret
from modelplane.hydrate.errors import HydrateError
from tests.support.file_server import file_server
from tests.support.hub_server import HubServer

FILES = {
    "config.json": b'{"model_type": "qwen3"}',
    "README.md": b"# A model\n",
    "empty.txt": b"",
    "model-00001.safetensors": b"first" * 200_000,
    "model-00002.safetensors": b"second" * 200_000,
    "original/params.json": b"{}",
    "original/weights.bin": b"w" * 1000,
    "copy/same.safetensors": b"first" * 200_000,
}


@pytest.fixture
def hub(server):
    with file_server() as storage:
        yield HubServer(server, storage, "acme/tiny", page=3)


def source(hub, **more):
    return {"huggingFace": {"repo": "acme/tiny", "endpoint": hub.url, **more}}


def tree(root: Path):
    """Every file and link below a folder, with its content or target. Locks and metadata of clients are left out."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file() and not name.startswith((".locks", "CACHEDIR", ".no_exist", "trees")):
            found[name] = path.read_bytes()
    return found


def test_the_files_of_a_branch_are_staged_as_a_cache(stage, hub):
    commit = hub.commit(FILES)
    marker = stage(source(hub))
    assert (marker.layout, marker.revision, marker.repo, marker.ref) == ("huggingface", commit, "acme/tiny", "main")
    assert stage.files() == FILES
    assert (stage.root / "hub/models--acme--tiny/refs/main").read_text() == commit
    assert (stage.root / "config.json").read_bytes() == FILES["config.json"]
    assert stage.fetched == sum(map(len, FILES.values())) - len(FILES["copy/same.safetensors"])


def test_a_filesystem_without_links_has_the_files_themselves(stage, hub, monkeypatch):
    """Such as a volume of SMB: the snapshot has no links to blobs, and two equal files are there twice."""

    def refuse(*_arguments, **_options):
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "symlink", refuse)
    monkeypatch.setattr(os, "link", refuse)
    hub.commit(FILES)
    marker = stage(source(hub))
    snapshot = stage.root / marker.root
    assert tree(snapshot) == FILES
    assert stage.files() == FILES


def test_a_volume_that_fails_is_no_filesystem_without_links(stage, hub, monkeypatch):
    def fail(*_arguments, **_options):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", fail)
    hub.commit({"a": b"1"})
    with pytest.raises(HydrateError, match="the volume cannot be written: Input/output error"):
        stage(source(hub))


def test_a_commit_has_the_key_of_its_branch(stage, hub):
    commit = hub.commit(FILES)
    branch = stage(source(hub))
    assert stage(source(hub, revision=commit)) == branch


def test_a_new_revision_fetches_only_what_changed(stage, hub):
    old = hub.commit(FILES)
    stage(source(hub))
    hub.commit({**FILES, "config.json": b"{ }", "model-00002.safetensors": b"third" * 1000})
    marker = stage(source(hub))
    assert stage.fetched == 3 + 5000
    assert stage.files()["model-00002.safetensors"] == b"third" * 1000
    snapshots = {path.name for path in (stage.root / "hub/models--acme--tiny/snapshots").iterdir()}
    assert snapshots == {old, marker.revision}


def test_old_revisions_go_with_the_blobs_that_only_they_have(stage, hub):
    markers = []
    for number in range(3):
        hub.commit({**FILES, "config.json": b"%d" % number})
        markers.append(stage(source(hub)))
    repository = stage.root / "hub/models--acme--tiny"
    assert {path.name for path in (repository / "snapshots").iterdir()} == {each.revision for each in markers[1:]}
    kept = {file.blob for each in markers[1:] for file in each.files}
    assert {path.name for path in (repository / "blobs").iterdir()} == kept


def test_a_revision_that_leads_out_is_refused(stage, hub):
    hub.commit(FILES, ref="../../evil")
    with pytest.raises(HydrateError, match="is not a relative path"):
        stage(source(hub, revision="../../evil"))


def test_include_and_exclude_select(stage, hub):
    hub.commit(FILES)
    stage(source(hub, include=["*.safetensors", "original/"], exclude=["copy/*", "*.json"]))
    assert set(stage.files()) == {"model-00001.safetensors", "model-00002.safetensors", "original/weights.bin"}


def test_the_token_stays_with_the_hub(stage, hub, tmp_path):
    hub.token = "hf_secret"
    hub.commit(FILES)
    (tmp_path / "HF_TOKEN").write_text("hf_secret\n")
    stage(source(hub, authSecret={"name": "token", "key": "HF_TOKEN"}), secret=MountedSecret(tmp_path))
    assert stage.files() == FILES
    assert {headers.get("Authorization") for _, _, headers in hub.hub.requests} == {"Bearer hf_secret"}
    assert {headers.get("Authorization") for _, _, headers in hub.storage.requests} == {None}


def test_refusals_name_the_cause(stage, hub):
    hub.commit(FILES)
    with pytest.raises(HydrateError, match="acme/tiny at v9: the repository or the revision does not exist") as raised:
        stage(source(hub, revision="v9"))
    assert raised.value.reason is Reason.SOURCE_NOT_FOUND
    hub.token = "x"
    with pytest.raises(HydrateError, match="the token is missing or wrong, or the repository does not exist") as raised:
        stage(source(hub))
    assert raised.value.reason is Reason.UNAUTHORIZED


@pytest.mark.parametrize("path", ["../evil", "/etc/passwd", "a/../../b", "a//b", "a\nb", "x" * 300, "."])
def test_names_that_lead_out_are_refused(stage, hub, path):
    hub.commit({"config.json": b"{}", path: b"evil"})
    with pytest.raises(HydrateError, match=r"is not a relative path|control characters|longer than a path"):
        stage(source(hub))
    assert not (stage.root / "hub").exists()


def test_a_damaged_small_file_is_noticed(stage, hub):
    commit = hub.commit(FILES)
    entry = hub._entry
    hub._entry = lambda path, content, large: {**entry(path, content, large), "oid": "0" * 40}
    with pytest.raises(HydrateError, match=r"has the digest git:[0-9a-f]{40}, and git:0{40} was listed"):
        stage(source(hub, revision=commit))


def test_a_plain_layout_may_be_asked_for(stage, hub):
    hub.commit(FILES)
    marker = stage(source(hub), options=HydrationOptions(layout="plain"))
    assert (marker.layout, marker.root) == ("plain", f"revisions/{marker.key}")
    assert stage.files() == FILES


def test_huggingface_hub_makes_the_same_tree(stage, hub, tmp_path):
    client = pytest.importorskip("huggingface_hub")
    commit = hub.commit(FILES)
    stage(source(hub))
    theirs = client.snapshot_download("acme/tiny", cache_dir=tmp_path / "theirs", endpoint=hub.url, token=False)
    assert Path(theirs).name == commit
    assert tree(stage.root / "hub" / "models--acme--tiny") == tree(tmp_path / "theirs" / "models--acme--tiny")


def test_huggingface_hub_reads_it_offline(stage, hub):
    client = pytest.importorskip("huggingface_hub")
    hub.commit(FILES)
    stage(source(hub))
    found = client.snapshot_download("acme/tiny", cache_dir=stage.root / "hub", local_files_only=True)
    assert {name: (Path(found) / name).read_bytes() for name in FILES} == FILES
    one = client.hf_hub_download("acme/tiny", "config.json", cache_dir=stage.root / "hub", local_files_only=True)
    assert Path(one).read_bytes() == FILES["config.json"]
