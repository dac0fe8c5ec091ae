"""The report of a simulation: one file, no script, nothing fetched, readable."""

import asyncio
import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from modelplane.cli.manifests import read_documents
from modelplane.testing.world.scenario import ScenarioPlan, run_scenario
from modelplane.testing.world.scenario_file import read_scenario
from modelplane.views.simulation_comparison import compared
from modelplane.web.simulation_page import DARK, LIGHT, simulation_page
from tests.support.chromium import CHROMIUM, MISSING, browser_page

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
VOID = {"meta", "path", "rect", "br"}


@pytest.fixture(scope="module")
def report():
    written = read_scenario(
        {
            "steps": ["60 lose cluster east", "61 lose cluster west"],
            "traffic": [{"service": "chat", "requestsPerSecond": 10}],
        }
    )
    manifests = [document.value for document in read_documents([FOLDER])]
    return run_scenario(ScenarioPlan(manifests, written.steps, written.traffic, 120.0, 1, name="both"))


class Reader(HTMLParser):
    """What the file holds, and whether every element is closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.attributes, self.texts = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_it_is_one_file_without_scripts(report):
    page = simulation_page(report)
    found = Reader(page)
    assert found.open == []
    assert {"script", "link", "img", "iframe", "object", "form"} & set(found.seen) == set()
    assert [each for each in found.attributes if each[1] in {"style", "href", "src"} or each[1].startswith("on")] == []
    assert "http:" not in page
    assert "https:" not in page


def test_its_policy_allows_its_own_style_and_nothing_else(report):
    page = simulation_page(report)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"content=\"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\"" in page


def test_it_says_what_the_text_says(report):
    words = " ".join(Reader(simulation_page(report)).texts)
    for step in report.steps:
        assert step.summary in words
    for replica in report.replicas:
        assert replica.replica in words
        assert replica.why_here in words
    counts = report.services[0].counts
    assert counts.failed > 0
    for number in (counts.requests, counts.served, counts.failed):
        assert str(number) in words
    assert "estimates" in words


def test_what_manifests_say_stays_text(report):
    hostile = '<script>alert(1)</script>"\u202e'
    page = simulation_page(msgspec.structs.replace(report, name=hostile, violation=hostile, quiet=False))
    assert "<script" not in page
    assert "\u202e" not in page
    assert "A rule was violated: &lt;script&gt;" in page
    assert "had not come to rest" in simulation_page(msgspec.structs.replace(report, quiet=False))


def test_a_comparison_is_a_table(report):
    other = msgspec.structs.replace(
        report, bill=msgspec.structs.replace(report.bill, deployments_cost=report.bill.deployments_cost * 2)
    )
    page = simulation_page(compared(report, other))
    assert '<td class="better">better</td>' in page
    assert "Compared with" not in simulation_page(report)


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast_is_that_of_wcag_aa(colours):
    """4.5 for text, 3 for what charts are drawn with."""
    for name in ("text", "quiet", "accent", "failed", "better"):
        assert contrast(colours[name], colours["bg"]) >= 4.5, name
    for name in ("served", "shed", "failed", "quiet"):
        assert contrast(colours[name], colours["bg"]) >= 3.0, name


async def shown(path, scheme, width):
    """What a browser sees: charts, whether something is wider than the page, its background, and its problems."""
    async with browser_page(width=width, scheme=scheme) as page:
        await page.open(f"file://{path}")
        charts = await page.until("document.querySelectorAll('svg').length")
        wide = await page.eval("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        background = await page.eval("getComputedStyle(document.body).backgroundColor")
        return charts, wide, background, page.problems


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.parametrize(
    ("scheme", "width", "background"), [("light", 1280, "rgb(255, 255, 255)"), ("dark", 390, "rgb(21, 26, 32)")]
)
def test_a_browser_shows_it_and_refuses_nothing(report, tmp_path, scheme, width, background):
    (tmp_path / "report.html").write_text(simulation_page(report))
    assert asyncio.run(shown(tmp_path / "report.html", scheme, width)) == (3, False, background, [])
