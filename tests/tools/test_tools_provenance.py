"""What packages were built from, and whether files are those that were built."""

import hashlib
import importlib.util
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tool():
    return loaded("provenance")


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_whole_statement(tool, tmp_path):
    for name in ("b.tar", "a.xpkg"):
        (tmp_path / name).write_text(name)
    materials = [tool.Material("git+modelplane", {"gitCommit": "c" * 40})]
    times = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 2, 3, tzinfo=UTC)
    found = tool.statement(tmp_path.iterdir(), {"plain": True}, materials, *times)
    inside = found["predicate"]["buildDefinition"].pop("internalParameters")
    assert set(inside) == {"python", "machine"}
    assert found == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest(name)}} for name in ("a.xpkg", "b.tar")],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://modelplane.ai/build-packages/v1",
                "externalParameters": {"plain": True},
                "resolvedDependencies": [{"uri": "git+modelplane", "digest": {"gitCommit": "c" * 40}}],
            },
            "runDetails": {
                "builder": {"id": "https://modelplane.ai/build-packages/unattested"},
                "metadata": {"startedOn": "2026-01-01T00:00:00Z", "finishedOn": "2026-01-01T00:02:03Z"},
            },
        },
    }


def test_debian_packages_are_named_and_hashed(tool, tmp_path):
    (tmp_path / "libc6_2.36-9+deb12u10_amd64.deb").write_text("x")
    assert tool.debian_materials(tmp_path) == [
        tool.Material("pkg:deb/debian/libc6@2.36-9+deb12u10?arch=amd64", {"sha256": digest("x")})
    ]


def test_a_tree_that_differs_from_its_commit_says_so(tool, tmp_path):
    assert tool.source(tmp_path) == tool.Material("git+modelplane", {})
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "a").write_text("1")
    for command in (["init", "-q"], ["add", "a"], [*author, "commit", "-qm", "a"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)  # noqa: S607
    clean = tool.source(tmp_path)
    (tmp_path / "a").write_text("2")
    dirty = tool.source(tmp_path)
    assert (clean.uri, dirty.uri) == ("git+modelplane", "git+modelplane?dirty")
    assert clean.digest == dirty.digest != {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda _: None, []),
        (lambda folder: (folder / "a").write_text("2"), ["a: is not the file that was built"]),
        (lambda folder: (folder / "a").unlink(), ["a: is missing"]),
        (lambda folder: (folder / "b").write_text("1"), ["b: is not in the statement"]),
    ],
)
def test_files_are_compared_with_what_was_built(tool, tmp_path, change, expected, capsys):
    (tmp_path / "a").write_text("1")
    now = datetime.now(UTC)
    tool.write_statement(tmp_path, tool.statement([tmp_path / "a"], {}, [], now, now))
    change(tmp_path)
    assert (tool.main([str(tmp_path)]), capsys.readouterr().out.splitlines()) == (int(bool(expected)), expected)


@pytest.mark.parametrize("text", [None, "{", "[]", '{"subject": [{}]}'])
def test_without_a_statement_nothing_is_proved(tool, tmp_path, text, capsys):
    if text is not None:
        (tmp_path / tool.STATEMENT).write_text(text)
    assert tool.main([str(tmp_path)]) == 1
    assert f"{tmp_path / tool.STATEMENT} cannot be read" in capsys.readouterr().out


def test_packages_are_built_with_their_provenance(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    build = loaded("build_packages")
    monkeypatch.setattr(sys, "argv", ["build_packages.py", "--runtime", "none", "--output", str(tmp_path)])
    assert build.main() == 0
    document = json.loads((tmp_path / build.provenance.STATEMENT).read_text())
    assert len(document["subject"]) == 2
    asked = document["predicate"]["buildDefinition"]["externalParameters"]
    assert asked == {"function": "", "runtime": "none", "plain": False, "architectures": ["amd64"]}
    assert build.provenance.differences(tmp_path) == []
