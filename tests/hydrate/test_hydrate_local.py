"""Files that are at hand: folders, mounted ConfigMaps, and texts of the source itself."""

import os

import pytest

from modelplane.hydrate.artifact import ArtifactFile
from modelplane.hydrate.errors import HydrateError, SourceChangedError
from modelplane.hydrate.local import FolderOrigin, TextOrigin, config_map_files, inline_files
from modelplane.hydrate.sources import ConfigMapSource, InlineSource


def read(stream):
    buffer, content = memoryview(bytearray(3)), b""
    while count := stream.readinto(buffer):
        content += bytes(buffer[:count])
    stream.close()
    return content


def folder(path, **files):
    for name, text in files.items():
        place = path / name.replace("__", "/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return path


def test_a_folder_is_its_files_in_order_and_their_parts(tmp_path):
    origin = FolderOrigin(folder(tmp_path, b="bytes", a__c="", **{"lost+found__x": "not ours"}))
    found = origin.resolve()
    assert [(file.path, file.size) for file in found.files] == [("a/c", 0), ("b", 5)]
    parts = [(0, None), (0, 5), (1, 4), (4, None)]
    assert [read(origin.open(found.files[1], *part)) for part in parts] == [b"bytes", b"bytes", b"yte", b"s"]


def test_a_folder_that_changes_has_another_key(tmp_path):
    origin = FolderOrigin(folder(tmp_path, a="1"))
    first = origin.resolve()
    assert origin.resolve() == first
    folder(tmp_path, a="22")
    assert origin.resolve().key != first.key
    with pytest.raises(SourceChangedError) as caught:
        origin.open(first.files[0], 0, None)
    assert str(caught.value) == f"{tmp_path}/a changed while it was read"


@pytest.mark.parametrize(
    ("make", "message", "reason"),
    [
        (lambda path: path.rmdir(), "{0} is not a folder", "SourceNotFound"),
        (lambda _: None, "{0} has no files", "SourceNotFound"),
        (lambda path: (path / "a").symlink_to("/etc/passwd"), "{0}/a is not a regular file", "SourceInvalid"),
        (lambda path: (path / "a").symlink_to("/etc"), "{0}/a is not a regular file", "SourceInvalid"),
        (lambda path: os.mkfifo(path / "a"), "{0}/a is not a regular file", "SourceInvalid"),
        (lambda path: (path / "a\n").touch(), "'a\\n' has control characters", "SourceInvalid"),
        (lambda path: (path / os.fsdecode(b"\xff")).touch(), "'\\udcff' is not text", "SourceInvalid"),
    ],
    ids=["missing", "empty", "a link", "a link to a folder", "a pipe", "a line break", "no text"],
)
def test_what_is_no_folder_of_files_is_refused(tmp_path, make, message, reason):
    place = tmp_path / "source"
    place.mkdir()
    make(place)
    with pytest.raises(HydrateError) as caught:
        FolderOrigin(place).resolve()
    assert (str(caught.value), str(caught.value.reason)) == (message.format(place), reason)


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path):
    origin = FolderOrigin(folder(tmp_path, a="1"))
    (file,) = origin.resolve().files
    (tmp_path / "a").unlink()
    (tmp_path / "a").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        origin.open(file, 0, None)


def test_texts_are_files():
    origin = TextOrigin(inline_files(InlineSource(files={"b": "2", "c": "3"}, filename="a", content="text")))
    found = origin.resolve()
    assert [(file.path, file.size) for file in found.files] == [("a", 4), ("b", 1), ("c", 1)]
    assert [read(origin.open(found.files[0], *part)) for part in [(0, None), (1, 3)]] == [b"text", b"ex"]


def test_a_source_without_texts_is_refused():
    with pytest.raises(HydrateError, match="the source has no files"):
        TextOrigin({}).resolve()


def mounted(path):
    """As the kubelet mounts a ConfigMap: keys are links into a folder that it replaces as a whole."""
    folder(path / "..2026", a="mounted", b="2")
    (path / "..data").symlink_to("..2026")
    for key in ("a", "b"):
        (path / key).symlink_to(f"..data/{key}")
    return path


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ({}, {"a": b"mounted", "b": b"2"}),
        ({"key": "b"}, {"b": b"2"}),
        ({"data": {"a": "given"}, "binary_data": {"c": b"\xff"}}, {"a": b"given", "c": b"\xff"}),
        ({"data": {"a": "given", "b": "2"}, "key": "a"}, {"a": b"given"}),
    ],
)
def test_the_keys_of_a_config_map_are_files(tmp_path, source, files):
    assert config_map_files(ConfigMapSource(name="m", **source), mounted(tmp_path)) == files


def test_a_key_that_a_config_map_lacks_is_named():
    with pytest.raises(HydrateError) as caught:
        config_map_files(ConfigMapSource(name="m", data={"a": "1"}, key="b"), None)
    assert (str(caught.value), str(caught.value.reason)) == ("the ConfigMap m has no key b", "ConfigMapMissing")
    assert config_map_files(ConfigMapSource(name="m"), None) == {}


def test_reads_of_files_need_no_abort(tmp_path):
    origin = FolderOrigin(folder(tmp_path, a="1"))
    (file,) = origin.resolve().files
    stream = origin.open(file, 0, None)
    origin.abort()
    assert read(stream) == b"1"
    assert read(TextOrigin({"a": b"1"}).open(ArtifactFile("a", 1), 0, None)) == b"1"
