"""A pytest plugin: writes what each test came to, and on how many examples a property was tried."""

import json
import re
from collections.abc import Generator
from pathlib import Path

import pytest

_PASSING = re.compile(r"(\d+) passing\b")
_EXAMPLES = "examples"
_PATH = "path"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, help="write the outcome of each test to this file")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--outcomes")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Outcomes(path), "outcomes")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Hypothesis keeps its statistics with the test; a worker hands them on with its report."""
    report = yield
    report.user_properties.append((_PATH, str(item.path)))
    if report.when == "call":
        text = getattr(item, "hypothesis_statistics", "")
        report.user_properties.append((_EXAMPLES, sum(int(number) for number in _PASSING.findall(text))))
    return report


class _Outcomes:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: dict[str, dict[str, object]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        told = dict(report.user_properties)
        name = f"{told.get(_PATH, '')}::{report.nodeid.partition('::')[2]}"
        known = self._tests.get(name)
        if known is None or known["outcome"] == "passed":
            self._tests[name] = {"outcome": report.outcome, _EXAMPLES: told.get(_EXAMPLES, 0)}

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps(self._tests))
