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
    assert [line["phase"] for line in done.lines] == ["Resolving", "Fetching", "Publishing", "Complete"]
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


def test_a_second_run_does_nothing(loader):
    assert loader.run(inline(a="1", b="2")).code == 0
    before = loader.marker
    again = loader.run(inline(a="1", b="2"))
    assert (again.code, [line["phase"] for line in again.lines]) == (0, ["Resolving", "Complete"])
    assert again.last["bytes"] == 2
    assert "fetched" not in again.last
    assert loader.marker == before


def test_a_new_revision_switches_and_the_old_one_stays(loader):
    loader.run(inline(a="1", old="x"))
    first = loader.marker
    assert loader.run(inline(a="2", new="y")).code == 0
    assert loader.files() == {"a": b"2", "new": b"y"}
    assert (loader.volume / "a").read_text() == "2"
    assert not (loader.volume / "old").is_symlink()
    assert (loader.volume / first["root"] / "a").read_text() == "1"
    loader.run(inline(a="3"))
    assert not (loader.volume / first["root"]).exists()


def test_going_back_to_a_kept_revision_fetches_nothing(loader):
    loader.run(inline(a="1"))
    loader.run(inline(a="2"))
    back = loader.run(inline(a="1"))
    assert (back.code, back.last["phase"], loader.files()) == (0, "Complete", {"a": b"1"})
    assert "fetched" not in back.last


def test_an_unexpected_key_is_refused(loader):
    done = loader.run(inline(a="1"), "--expect-key", "other")
    assert done.code == 1
    assert done.errors.startswith("modelplane hydrate: the source has the content key ")
    assert (done.last["phase"], done.last["reason"]) == ("Failed", "Hydrate")
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
