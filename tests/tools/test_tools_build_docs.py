"""The documentation builds, every page is in its navigation, and nothing in it leads nowhere."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from tools.build_docs import ROOT, read_site, write_site

GOOD = (
    "# A page\n\nThis page is for testers. More.\n\n## Second heading\n\n[up](#second-heading) [b](b.md) ![p](p.svg)\n"
)
OTHER = "# Another\n\nThis page is for testers.\n\n[a](a.md#second-heading) [code](../code.py) [all](../folder) [x](https://x.example)\n"


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.anchors = [], set()

    def handle_starttag(self, _tag, attrs):
        values = dict(attrs)
        self.anchors.add(values.get("id"))
        self.found += [values[name] for name in ("href", "src") if name in values]


@pytest.fixture
def root(tmp_path):
    """A small repository with two pages, a picture, a file and a folder."""
    files = {
        "docs/nav.yaml": "- {title: All, pages: [a.md, b.md]}\n",
        "docs/a.md": GOOD,
        "docs/b.md": OTHER,
        "docs/p.svg": "<svg/>",
        "code.py": "1\n",
        "folder/x.yaml": "a: <b>\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def broken_links(out):
    """Links of a written site that lead to no file of it, or to no heading."""
    pages = {}
    for path in out.rglob("*.html"):
        pages[path] = Links()
        pages[path].feed(path.read_text())
    for path, page in pages.items():
        for link in page.found:
            if re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = unquote(link).partition("#")
            target = (path.parent / file).resolve() if file else path
            if not target.is_file() or (anchor and anchor not in pages[target].anchors):
                yield f"{path.relative_to(out)}: {link}"


@pytest.mark.submission
@pytest.mark.slow
def test_the_documentation_has_no_problem_and_builds(tmp_path):
    site = read_site()
    assert site.problems == ()
    assert write_site(site, tmp_path) > 60
    assert list(broken_links(tmp_path)) == []
    pages = {path.relative_to(ROOT).with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert [path for path in pages if not (tmp_path / path).is_file()] == []


@pytest.mark.slow
def test_nothing_of_the_site_comes_from_elsewhere(tmp_path):
    write_site(read_site(), tmp_path)
    text = "".join(path.read_text() for path in tmp_path.rglob("*.html")) + (tmp_path / "style.css").read_text()
    assert "<script" not in text
    assert re.findall(r'(?:src="|<link[^>]+href="|url\()https?:', text) == []


def test_a_site_is_written_with_its_links_rewritten(root, tmp_path):
    out = tmp_path / "out"
    site = read_site(root)
    assert (site.problems, write_site(site, out, root)) == ((), 3)
    assert list(broken_links(out)) == []
    assert 'href="a.html#second-heading"' in (out / "docs" / "b.html").read_text()
    assert "a: &lt;b&gt;" in (out / "folder" / "index.html").read_text()
    assert 'aria-current="page">A page' in (out / "docs" / "a.html").read_text()


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        pytest.param("docs/c.md", GOOD, "docs/c.md: not in docs/nav.yaml", id="a page that nobody finds"),
        pytest.param(
            "docs/nav.yaml",
            "- {title: All, pages: [a.md, b.md, c.md]}",
            "docs/nav.yaml: docs/c.md does not exist",
            id="gone",
        ),
        pytest.param(
            "docs/nav.yaml",
            "- {title: All, pages: [a.md, b.md, b.md]}",
            "docs/nav.yaml: docs/b.md is listed 2 times",
            id="twice",
        ),
        pytest.param("docs/a.md", GOOD.replace("b.md", "c.md"), "docs/a.md: c.md leads nowhere", id="link"),
        pytest.param(
            "docs/a.md", GOOD.replace("#second", "#third"), "docs/a.md: #third-heading has no such heading", id="anchor"
        ),
        pytest.param(
            "docs/b.md", OTHER.replace("#second", "#x"), "docs/b.md: a.md#x-heading has no such heading", id="other's"
        ),
        pytest.param("docs/a.md", GOOD.replace("p.svg", "q.svg"), "docs/a.md: no picture q.svg", id="picture"),
        pytest.param("docs/b.md", OTHER.replace("# A", "A"), "docs/b.md: has no title", id="title"),
        pytest.param(
            "docs/a.md",
            GOOD.replace("is for", "has"),
            "docs/a.md: its first sentence does not say whom it is for: 'This page is for …'",
            id="audience",
        ),
    ],
)
def test_a_problem_is_named(root, file, text, problem):
    (root / file).write_text(text)
    assert problem in read_site(root).problems


def test_a_heading_that_is_there_twice_has_two_anchors(root):
    (root / "docs" / "a.md").write_text(GOOD + "\n## Second heading\n\n[other](#second-heading-1)\n")
    assert read_site(root).problems == ()


def test_every_picture_of_the_documentation_is_drawn_for_light_and_dark():
    """A drawing brings its own background, so that its text can be read on any page."""
    for path in (ROOT / "docs").glob("*.svg"):
        first = re.search(r"<rect[^>]*>", path.read_text())[0]
        whole = re.search(r'viewBox="0 0 (\d+) (\d+)"', path.read_text())
        assert f'width="{whole[1]}" height="{whole[2]}"' in first or 'width="100%" height="100%"' in first, path.name
        assert "<script" not in path.read_text()
    assert len(list((ROOT / "docs").glob("*.svg"))) >= 6
    assert not any(Path(path).stat().st_size > 150_000 for path in (ROOT / "docs").glob("*.svg"))


def test_the_start_page_leads_to_every_page():
    """Pages of the reference are led to by its own."""
    docs = ROOT / "docs"
    pages = {page for section in yaml.safe_load((docs / "nav.yaml").read_text()) for page in section["pages"]}
    linked = set(re.findall(r"\]\(([^)#]+)", (docs / "README.md").read_text()))
    wanted = {page for page in pages if page == "reference/README.md" or not page.startswith("reference/")}
    assert wanted - linked == {"README.md"}
