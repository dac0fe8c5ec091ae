"""The bill of materials, the licences and the audit, from the locks as they are."""

import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HASH = "a" * 64
LOCK = f"""\
Some.Package==1.2.3 \\
    --hash=sha256:{HASH} \\
    --hash=sha256:{"b" * 64}
other[extra]==2.0 ; sys_platform == 'win32' \\
    --hash=sha256:{"c" * 64}
"""
COPYLEFT = re.compile(r"\b(A?GPL|SSPL|BUSL|Affero|GNU General)", re.IGNORECASE)


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("sbom_tool", ROOT / "tools" / "sbom.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_a_lock_is_read_with_hashes_and_markers(tool):
    assert tool.read_lock(LOCK) == (
        tool.LockedPackage("some-package", "1.2.3", (HASH, "b" * 64)),
        tool.LockedPackage("other", "2.0", ("c" * 64,), "sys_platform == 'win32'"),
    )
    with pytest.raises(ValueError, match="other has no hash"):
        tool.read_lock("other==1.0\n")


NAMES = ["requirements", "requirements-deep", "requirements-dev", "requirements-image", "requirements-wheels"]


def test_every_lock_is_listed(tool):
    in_the_makefile = re.findall(r"requirements[a-z-]*\.lock", (ROOT / "Makefile").read_text())
    assert sorted(tool.LOCKS) == sorted(set(in_the_makefile)) == sorted(f"{name}.lock" for name in NAMES)


@pytest.mark.parametrize("lock", [f"{name}.lock" for name in NAMES])
def test_every_locked_package_is_in_the_bill(tool, lock):
    text = (ROOT / lock).read_text()
    packages = tool.read_lock(text)
    assert len(packages) == len(re.findall(r"^\S+==", text, re.MULTILINE)) >= 10
    document = tool.bill_of_materials(lock, packages, {})
    assert [each["purl"] for each in document["components"]] == [package.purl for package in packages]
    assert document == tool.bill_of_materials(lock, packages, {})


def test_the_document_of_a_package(tool):
    (package, _) = tool.read_lock(LOCK)
    document = tool.bill_of_materials("l", [package], {"some-package@1.2.3": "MIT"})
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["components"] == [
        {
            "type": "library",
            "bom-ref": "pkg:pypi/some-package@1.2.3",
            "name": "some-package",
            "version": "1.2.3",
            "purl": "pkg:pypi/some-package@1.2.3",
            "properties": [
                {"name": "modelplane:sha256", "value": HASH},
                {"name": "modelplane:sha256", "value": "b" * 64},
            ],
            "licenses": [{"license": {"name": "MIT"}}],
        }
    ]


def test_what_is_shipped_has_no_copyleft_licence_and_few_direct_dependencies(tool):
    known = tool.licences(tool.distributions())
    shipped = [
        package
        for lock in ("requirements.lock", "requirements-image.lock")
        for package in tool.read_lock((ROOT / lock).read_text())
    ]
    found = {package.name: known.get(f"{package.name}@{package.version}", "") for package in shipped}
    assert {name: licence for name, licence in found.items() if COPYLEFT.search(licence)} == {}
    assert sum(bool(licence) for licence in found.values()) > len(found) / 2
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert len(project["dependencies"]) <= 15


def advisory(**affected):
    package = {"ecosystem": "PyPI", "name": "Some_Package"}
    return {"id": "X-1", "summary": "bad", "affected": [{"package": package, **affected}]}


@pytest.mark.parametrize(
    ("affected", "hit"),
    [
        ({"versions": ["1.2.3"]}, True),
        ({"versions": ["1.2.4"]}, False),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]}, True),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.2.3"}]}]}, False),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "1.0"}, {"fixed": "1.10"}]}]}, True),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "1.3"}]}]}, False),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "1"}, {"last_affected": "1.2.3"}]}]}, True),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "1"}, {"last_affected": "1.2.2"}]}]}, False),
        ({"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}, False),
        ({"versions": ["1.2.3"], "package": {"ecosystem": "npm", "name": "some-package"}}, False),
    ],
)
def test_the_audit_evaluates_advisories_as_osv_does(tool, affected, hit):
    packages = tool.read_lock(LOCK)
    expected = (tool.Finding(packages[0], "X-1", "bad"),) if hit else ()
    assert tool.audit(packages, [advisory(**affected)]) == expected
    assert tool.audit(packages, [{**advisory(**affected), "withdrawn": "2026-01-01T00:00:00Z"}]) == ()


def test_it_writes_everything_and_fails_on_a_hit(tool, tmp_path, capsys):
    advisories = tmp_path / "osv"
    advisories.mkdir()
    out = tmp_path / "out"
    assert tool.main(["--out", str(out), "--advisories", str(advisories)]) == 1
    assert "has no advisories" in capsys.readouterr().out
    other = "id: X-1\nmodified: 2026-01-02T03:04:05Z\naffected: [{package: {ecosystem: PyPI, name: none-of-ours}}]\n"
    (advisories / "x.yaml").write_text(other)
    assert tool.main(["--out", str(out), "--advisories", str(advisories)]) == 0
    assert "1 advisories, newest of 2026-01-02: 0 findings" in capsys.readouterr().out
    names = {path.name for path in out.iterdir()}
    assert names == {"licences.md", *(f"{lock}.cdx.json" for lock in NAMES)}
    found = {"id": "X-2", "affected": [{"package": {"ecosystem": "PyPI", "name": "aiohttp"}, "ranges": [
        {"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]}]}  # fmt: skip
    (advisories / "x.json").write_text(json.dumps(found))
    assert tool.main(["--out", str(out), "--advisories", str(advisories)]) == 1
    assert "aiohttp" in capsys.readouterr().out
