"""Layers over one another, as a registry's clients unpack them, and what no layer may have."""

import gzip
import io
import tarfile

import pytest

from modelplane.hydrate import archives
from modelplane.hydrate.archives import Unpacker
from modelplane.hydrate.errors import SourceInvalidError


def tar(*members):
    """(name, content) pairs; None is a folder, a type of tarfile a member of that type."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.size = len(content or b"")
            archive.addfile(info, io.BytesIO(content or b""))
    return out.getvalue()


def unpack(folder, *layers, sub_path="", compression="", check=lambda: None):
    """The files that are left. Their records are those of the files."""
    target = folder / "unpacked"
    target.mkdir()
    unpacker = Unpacker(target, sub_path, check)
    for number, layer in enumerate(layers):
        path = folder / f"layer-{number}"
        path.write_bytes(layer)
        unpacker.unpack(path, compression)
    left = {path.relative_to(target).as_posix(): path.read_bytes() for path in target.rglob("*") if path.is_file()}
    assert {name: record.size for name, record in unpacker.records.items()} == {
        name: len(content) for name, content in left.items()
    }
    return left


LAYERS = [
    pytest.param([[("a", b"1")], [("a", b"22")]], "", {"a": b"22"}, id="a later file replaces an earlier one"),
    pytest.param([[("./", None), ("./a", b"1"), ("b/", None)]], "", {"a": b"1"}, id="folders are made for files only"),
    pytest.param([[("a/b", b"1"), ("c", b"2")], [("a", b"3")]], "", {"a": b"3", "c": b"2"}, id="a file for a folder"),
    pytest.param([[("a", b"1"), ("b", b"2")], [(".wh.a", b"")]], "", {"b": b"2"}, id="a file is hidden"),
    pytest.param([[("d/a", b"1"), ("b", b"2")], [(".wh.d", b"")]], "", {"b": b"2"}, id="a folder is hidden"),
    pytest.param(
        [[("d/a", b"1"), ("b", b"2")], [("d/.wh..wh..opq", b""), ("d/c", b"3")]],
        "",
        {"b": b"2", "d/c": b"3"},
        id="what a folder had is hidden",
    ),
    pytest.param([[("a", b"1")], [(".wh..wh..opq", b"")]], "", {}, id="everything is hidden"),
    pytest.param(
        [[("d/a", b"1"), ("d/c", b"2")], [("d/c", b"3"), ("d/.wh..wh..opq", b"")]],
        "",
        {"d/c": b"3"},
        id="what a layer holds before it hides the layers below stays",
    ),
    pytest.param(
        [[("d/a", b"1"), ("b", b"2")], [("d/c", b"3"), (".wh.d", b"")]],
        "",
        {"b": b"2", "d/c": b"3"},
        id="a folder that a layer holds and hides is its own",
    ),
    pytest.param(
        [[("m/a", b"1")], [("m/c", b"3"), (".wh..wh..opq", b"")]], "m", {"c": b"3"}, id="its own part of what is hidden"
    ),
    pytest.param([[("m/a", b"1"), ("etc/b", b"2")]], "/m/", {"a": b"1"}, id="a part"),
    pytest.param([[("m/a", b"1"), ("mn/b", b"2")], [("m/.wh.a", b"")]], "m", {}, id="a file of the part is hidden"),
    pytest.param([[("m/n/a", b"1")], [(".wh.m", b"")]], "m/n", {}, id="a folder around the part is hidden"),
    pytest.param([[("m/a", b"1")], [("m/.wh..wh..opq", b"")]], "m", {}, id="what the part had is hidden"),
    pytest.param([[("m/a", b"1")], [(".wh.a", b""), ("n/.wh.a", b"")]], "m", {"a": b"1"}, id="another is hidden"),
]


@pytest.mark.parametrize(("layers", "sub_path", "left"), LAYERS)
def test_layers_lie_over_one_another(tmp_path, layers, sub_path, left):
    assert unpack(tmp_path, *(tar(*members) for members in layers), sub_path=sub_path) == left


@pytest.mark.parametrize(
    ("compression", "pack"),
    [("", bytes), ("gzip", gzip.compress), ("zstd", gzip.compress)],
    ids=["tar", "gzip", "zstd"],
)
def test_a_layer_is_opened_by_its_compression(tmp_path, monkeypatch, compression, pack):
    # Python 3.11 reads no zstd. What is there in its place is called as the module of Python 3.14 is.
    monkeypatch.setattr(archives, "_ZSTD_MODULES", ("no.such.module", "gzip"))
    assert unpack(tmp_path, pack(tar(("a", b"1"))), compression=compression) == {"a": b"1"}


def test_zstd_without_a_module_for_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "_ZSTD_MODULES", ("no.such.module",))
    with pytest.raises(SourceInvalidError) as caught:
        unpack(tmp_path, tar(("a", b"1")), compression="zstd")
    needed = "a layer is compressed with zstd, which needs Python 3.14 or the package backports.zstd"
    assert str(caught.value) == needed


@pytest.mark.parametrize(
    ("layer", "compression", "message"),
    [
        (b"no archive at all" * 100, "", "a layer cannot be unpacked: "),
        (b"no archive at all", "gzip", "a layer cannot be unpacked: Not a gzipped file"),
        (gzip.compress(tar(("a", b"1" * 5000)), mtime=0)[:40], "gzip", "a layer cannot be unpacked: "),
        (tar(("a", b"1" * 5000))[:1500], "", "a layer cannot be unpacked: unexpected end of data"),
        (tar(("a", b""), ("b", b""), ("c", b"")), "", "a layer has more than 2 files"),
        (tar(("a", b"1"), ("a/b/c", b"2")), "", "a is a file and a folder in the layers"),
        (tar(("a/../../b", b"1")), "", "'a/../../b' is not a relative path"),
        (tar(("m/../.wh.a", b"1")), "", "'m/../.wh.a' is not a relative path"),
    ],
)
def test_what_is_no_layer_is_refused(tmp_path, monkeypatch, layer, compression, message):
    monkeypatch.setattr(archives, "_MOST_MEMBERS", 2)
    with pytest.raises(SourceInvalidError) as caught:
        unpack(tmp_path, layer, compression=compression)
    assert str(caught.value).startswith(message)


def test_unpacking_stops_between_blocks(tmp_path):
    def stop():
        raise TimeoutError("enough")

    with pytest.raises(TimeoutError, match="enough"):
        unpack(tmp_path, tar(("a", b"1")), check=stop)
