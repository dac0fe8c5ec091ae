"""The whole path on local files: what is on the volume afterwards, and what is said."""

import hashlib
import json


def test_a_folder_is_staged_and_described(loader, tmp_path):
    content = {"config.json": b"{}", "weights/model.safetensors": bytes(range(256)) * 5000, "empty": b""}
    for name, data in content.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "source" / "lost+found").mkdir()
    status = tmp_path / "status.json"
    done = loader.run(f"file://{tmp_path}/source", "--status-file", str(status))
    assert (done.code, done.errors) == (0, "")
    phases = list(dict.fromkeys(line["phase"] for line in done.lines))
    assert phases == ["Resolving", "Fetching", "Publishing", "Complete"]
    assert json.loads(status.read_text()) == done.last
    assert loader.files() == content
    assert loader.marker["files"] == [
        {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "blob": None}
        for name, data in sorted(content.items())
    ]
    assert (loader.volume / "weights" / "model.safetensors").read_bytes() == content["weights/model.safetensors"]
    assert sorted(path.name for path in (loader.volume / ".modelplane").iterdir()) == [
        "complete.json",
        "lock",
        "revisions",
    ]


def inline(**files):
    return {"inline": {"files": files}}


def test_a_second_run_does_nothing(stage):
    before = stage(inline(a="1", b="2"))
    stage.lines.clear()
    assert stage(inline(a="1", b="2")) == before
    assert {line["phase"] for line in stage.lines} == {"Resolving"}
    assert (stage.fetched, stage.progress._bytes) == (0, 2)


def test_a_new_revision_switches_and_the_old_one_stays(stage):
    first = stage(inline(a="1", old="x"))
    stage(inline(a="2", new="y"))
    assert stage.files() == {"a": b"2", "new": b"y"}
    assert (stage.root / "a").read_text() == "2"
    assert not (stage.root / "old").is_symlink()
    assert (stage.root / first.root / "a").read_text() == "1"
    stage(inline(a="3"))
    assert not (stage.root / first.root).exists()


def test_going_back_to_a_kept_revision_fetches_nothing(stage):
    first = stage(inline(a="1"))
    stage(inline(a="2"))
    assert stage(inline(a="1")) == first
    assert (stage.fetched, stage.files()) == (0, {"a": b"1"})


def test_an_expected_key_needs_no_source(stage, server):
    source = {"http": {"url": server.add("/model.bin", b"weights")}}
    marker = stage(source)
    seen = len(server.requests)
    assert stage(source, expected_key=marker.key) == marker
    assert len(server.requests) == seen


def test_an_unexpected_key_is_refused(loader):
    done = loader.run(inline(a="1"), "--expect-key", "other")
    assert done.code == 65
    assert done.errors.startswith("modelplane hydrate: the source has the content key ")
    assert (done.last["phase"], done.last["reason"]) == ("Failed", "DigestMismatch")
    assert not (loader.volume / ".modelplane" / "complete.json").exists()


def test_a_layout_that_the_source_cannot_have_is_fetched_once(stage, server):
    source = {"http": {"url": server.add("/model.bin", b"weights")}}
    stage(source, layout="huggingface")
    stage(source, layout="huggingface")
    assert stage.fetched == 0


def test_a_volume_that_cannot_be_written_is_for_good(loader):
    loader.volume.write_text("a file")
    done = loader.run(inline(a="1"))
    assert (done.code, done.last["phase"]) == (1, "Failed")
    assert done.errors == "modelplane hydrate: the volume cannot be written: File exists\n"


def test_files_that_are_missing_are_named(loader, tmp_path):
    assert loader.run(f"@{tmp_path}/nothing.json").errors == (
        f"modelplane hydrate: --source: {tmp_path}/nothing.json cannot be read: No such file or directory\n"
    )
