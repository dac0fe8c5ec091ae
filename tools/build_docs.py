"""Builds the documentation as a static site, or says what is wrong with it.

build_docs.py [--check] [--out build/site]

`docs/nav.yaml` lists the pages by section. A page is Markdown: it has one title, and its first sentence says whom it is
for. What a page links to comes along: Markdown of other folders as pages, folders as pages that show their files, other
files as they are. Links, anchors and pictures that lead nowhere are problems, and a site with problems is not written.
"""

import argparse
import html
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
NAVIGATION = Path("docs/nav.yaml")
AUDIENCE = re.compile(r"This page is for [^.]+\.")
_OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:|//")
_MARKDOWN = MarkdownIt("commonmark").enable("table")
_SHOWN = {".yaml", ".json", ".py", ".toml"}
"""Files that a page of a folder shows."""


class Section(NamedTuple):
    title: str
    pages: tuple[Path, ...]
    """Relative to the root of the repository."""


@dataclass(frozen=True, slots=True)
class Page:
    path: Path
    """Relative to the root of the repository."""
    tokens: tuple[Token, ...]
    title: str
    anchors: frozenset[str]
    links: tuple[str, ...]
    pictures: tuple[str, ...]
    opening: str
    """The first paragraph."""

    @property
    def target(self) -> Path:
        return self.path.with_suffix(".html")


def navigation(root: Path) -> tuple[Section, ...]:
    listed = yaml.safe_load((root / NAVIGATION).read_text())
    return tuple(Section(each["title"], tuple(Path("docs") / page for page in each["pages"])) for each in listed)


def read_page(root: Path, path: Path) -> Page:
    tokens = tuple(_MARKDOWN.parse((root / path).read_text()))
    headings = [(token, tokens[at + 1]) for at, token in enumerate(tokens) if token.type == "heading_open"]
    seen: Counter[str] = Counter()
    for opened, inline in headings:
        slug = _slug(_text(inline))
        opened.attrSet("id", f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    inside = [child for token in tokens for child in token.children or ()]
    return Page(
        path=path,
        tokens=tokens,
        title=next((_text(inline) for opened, inline in headings if opened.tag == "h1"), ""),
        anchors=frozenset(str(opened.attrGet("id")) for opened, _ in headings),
        links=tuple(str(child.attrGet("href")) for child in inside if child.type == "link_open"),
        pictures=tuple(str(child.attrGet("src")) for child in inside if child.type == "image"),
        opening=next((_text(tokens[at + 1]) for at, each in enumerate(tokens) if each.type == "paragraph_open"), ""),
    )


def _text(inline: Token) -> str:
    """What a reader sees of it, without marks."""
    return "".join(" " if each.type == "softbreak" else each.content for each in inline.children or ())


def _slug(title: str) -> str:
    """The anchor of a heading, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


class Site(NamedTuple):
    sections: tuple[Section, ...]
    pages: dict[Path, Page]
    """Every Markdown page, by its path: those of the navigation and those that they lead to."""
    folders: frozenset[Path]
    files: frozenset[Path]
    problems: tuple[str, ...]


def read_site(root: Path = ROOT) -> Site:
    """Read the pages of the navigation, and whatever they lead to."""
    sections = navigation(root)
    listed = [page for section in sections for page in section.pages]
    problems = list(_navigation_problems(root, listed))
    pages: dict[Path, Page] = {}
    others: set[Path] = set()
    waiting = [path for path in listed if (root / path).is_file()]
    while waiting:
        path = waiting.pop()
        if path in pages:
            continue
        page = pages[path] = read_page(root, path)
        for target in (goal for link in (*page.links, *page.pictures) if (goal := _goal(path, link)) is not None):
            if target.suffix == ".md" and (root / target).is_file():
                waiting.append(target)
            elif (root / target).exists():
                others.add(target)
    for page in pages.values():
        problems += _page_problems(root, page, pages, listed=page.path in listed)
    folders = frozenset(path for path in others if (root / path).is_dir())
    return Site(sections, pages, folders, frozenset(others) - folders, tuple(sorted(problems)))


def _goal(source: Path, link: str) -> Path | None:
    """The file of the repository that a link leads to; a link to the page itself or to elsewhere has none."""
    path = unquote(link.partition("#")[0])
    if not path or _OUTSIDE.match(link):
        return None
    return Path(os.path.normpath(source.parent / path))


def _navigation_problems(root: Path, listed: Sequence[Path]) -> Iterator[str]:
    there = {path.relative_to(root) for path in (root / "docs").rglob("*.md")}
    for path in sorted(there - set(listed)):
        yield f"{path}: not in {NAVIGATION}"
    for path in sorted(set(listed) - there):
        yield f"{NAVIGATION}: {path} does not exist"
    for path, count in Counter(listed).items():
        if count > 1:
            yield f"{NAVIGATION}: {path} is listed {count} times"


def _page_problems(root: Path, page: Page, pages: dict[Path, Page], *, listed: bool) -> Iterator[str]:
    if not page.title:
        yield f"{page.path}: has no title"
    if listed and not AUDIENCE.match(page.opening):
        yield f"{page.path}: its first sentence does not say whom it is for: 'This page is for …'"
    for picture in page.pictures:
        goal = _goal(page.path, picture)
        if goal is None or not (root / goal).is_file():
            yield f"{page.path}: no picture {picture}"
    for link in page.links:
        yield from _link_problems(root, page, link, pages)


def _link_problems(root: Path, page: Page, link: str, pages: dict[Path, Page]) -> Iterator[str]:
    if _OUTSIDE.match(link):
        return
    goal = _goal(page.path, link) or page.path
    anchor = link.partition("#")[2]
    if not (root / goal).exists():
        yield f"{page.path}: {link} leads nowhere"
    elif anchor and (goal not in pages or anchor not in pages[goal].anchors):
        yield f"{page.path}: {link} has no such heading"


def write_site(site: Site, out: Path, root: Path = ROOT) -> int:
    """Write it, and say how many pages it has."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "style.css").write_text(STYLE)
    first = site.sections[0].pages[0]
    (out / "index.html").write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={_html(first)}">\n')
    for path, page in site.pages.items():
        _write(out, page.target, _document(site, path, page.title, _body(page, site)))
    for folder in site.folders:
        _write(out, folder / "index.html", _document(site, folder / "x", str(folder), _listing(root, folder)))
    for file in site.files:
        _write(out, file, (root / file).read_bytes())
    return len(site.pages) + len(site.folders)


def _write(out: Path, path: Path, content: str | bytes) -> None:
    (out / path).parent.mkdir(parents=True, exist_ok=True)
    (out / path).write_bytes(content.encode() if isinstance(content, str) else content)


def _html(path: Path) -> str:
    return path.with_suffix(".html").as_posix()


def _body(page: Page, site: Site) -> str:
    for token in page.tokens:
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", _address(page.path, str(child.attrGet("href")), site))
    options: Any = _MARKDOWN.options
    return str(_MARKDOWN.renderer.render(page.tokens, options, {}))


def _address(source: Path, link: str, site: Site) -> str:
    """Where a link leads on the site."""
    path, mark, anchor = link.partition("#")
    goal = _goal(source, link)
    if goal in site.pages:
        path = f"{path[: -len('.md')]}.html"
    elif goal in site.folders:
        path = f"{path.rstrip('/')}/index.html"
    return f"{path}{mark}{anchor}"


def _listing(root: Path, folder: Path) -> str:
    """A folder: its files, with the text of those that people read."""
    parts = [f"<h1>{html.escape(folder.as_posix())}</h1>"]
    for file in sorted(path for path in (root / folder).rglob("*") if path.suffix in _SHOWN):
        name = file.relative_to(root / folder).as_posix()
        parts.append(f"<h2>{html.escape(name)}</h2><pre><code>{html.escape(file.read_text())}</code></pre>")
    return "\n".join(parts)


def _document(site: Site, path: Path, title: str, body: str) -> str:
    up = "../" * len(path.parent.parts)
    return _DOCUMENT.format(title=html.escape(title), up=up, nav=_nav(site, path, up), body=body)


def _nav(site: Site, current: Path, up: str) -> str:
    parts = []
    for section in site.sections:
        parts.append(f"<h2>{html.escape(section.title)}</h2>\n<ul>")
        for path in section.pages:
            mark = ' aria-current="page"' if path == current else ""
            parts.append(f'<li><a href="{up}{_html(path)}"{mark}>{html.escape(site.pages[path].title)}</a></li>')
        parts.append("</ul>")
    return "\n".join(parts)


_DOCUMENT = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} | Modelplane</title>
<link rel="stylesheet" href="{up}style.css">
</head>
<body>
<nav aria-label="Pages">
<p><a href="{up}index.html"><strong>Modelplane</strong></a></p>
{nav}
</nav>
<main>
{body}
</main>
</body>
</html>
"""

STYLE = """\
:root { color-scheme: light dark; --text: #1c2733; --back: #ffffff; --soft: #f3f5f8; --line: #d5dbe3; --link: #1f54c4; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e3e8ee; --back: #14191f; --soft: #1d242c; --line: #37424f; --link: #8ab4ff; }
}
* { box-sizing: border-box; }
body { margin: 0; display: flex; font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--back); }
nav { flex: 0 0 17rem; height: 100vh; position: sticky; top: 0; overflow: auto; padding: 1rem; }
nav { background: var(--soft); }
nav h2 { font-size: .85rem; margin: 1rem 0 .25rem; }
nav ul { list-style: none; margin: 0; padding: 0; font-size: .9rem; }
nav [aria-current] { font-weight: bold; }
main { flex: 1 1 auto; min-width: 0; max-width: 62rem; padding: 1rem 2rem 4rem; }
a { color: var(--link); }
img { max-width: 100%; height: auto; }
pre { overflow: auto; padding: .75rem; background: var(--soft); border-radius: 6px; }
code { font: .875em ui-monospace, monospace; }
table { display: block; overflow: auto; border-collapse: collapse; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
td { min-width: 6rem; }
td code { overflow-wrap: anywhere; }
@media (max-width: 50rem) { body { display: block; } nav { height: auto; position: static; } }
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say what is wrong")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="the folder to write (build/site)")
    options = parser.parse_args()
    site = read_site()
    for problem in site.problems:
        print(problem, file=sys.stderr)
    if site.problems:
        return 1
    if not options.check:
        print(f"{write_site(site, options.out)} pages in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
