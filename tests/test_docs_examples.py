"""Every manifest and every program that we show works, and links lead somewhere."""

import re
from pathlib import Path

import pytest

import modelplane
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.admission.references import Severity
from modelplane.k8s.admission.review import review

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "design").glob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
CODE = re.compile(r"`[^`\n]*`")
PROGRAM = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = PROGRAM.findall((ROOT / "docs" / "python.md").read_text())
FOLDERS = sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir())


def errors(documents):
    return [str(f.problem) for f in review(documents).findings if f.severity is Severity.ERROR]


def shown(page):
    return [fence for fence in FENCE.findall(page.read_text()) if "modelplane.ai/v1alpha1" in fence]


@pytest.mark.parametrize("page", [page for page in PAGES if shown(page)], ids=lambda page: page.name)
def test_manifests_in_the_documentation_are_valid(page):
    for fence in shown(page):
        documents = parse_documents(fence.encode(), source=page.name)
        assert (errors(documents), bool(documents)) == ([], True)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_examples_are_valid_as_a_set(folder):
    files = sorted(folder.rglob("*.yaml"))
    documents = [document for file in files for document in parse_documents(file.read_bytes(), source=str(file))]
    found = review(documents)
    # A Secret is never among the files of an example: its page says how to create it.
    others = [str(finding.problem) for finding in found.findings if "secretKeyRef" not in str(finding.problem)]
    assert others == []
    assert found.count(Severity.ERROR) == 0
    assert found.objects + found.skipped.get("Scenario", 0) > 0


@pytest.mark.parametrize(("program", "printed"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_programs_of_the_python_page_print_what_it_says(program, printed, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    exec(compile(program, "python.md", "exec"), {"__name__": "example"})  # noqa: S102  our own page
    assert capsys.readouterr().out == printed


def test_the_python_page_has_a_program_for_each_name_of_the_door():
    programs = "".join(program for program, _ in PROGRAMS)
    assert [name for name in modelplane.__all__ if f"modelplane.{name}" not in programs] == ["__version__"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    inside = [link for link in LINK.findall(CODE.sub("", page.read_text())) if "://" not in link]
    assert [link for link in inside if not (page.parent / link).exists()] == []
