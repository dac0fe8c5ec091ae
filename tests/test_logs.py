"""Every log line has a reason, and one about an object names it (`modelplane.reconcile.log_lines`)."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from modelplane.reconcile.log_reasons import LogReason

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "modelplane"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
MAKERS = {"about", "because"}
"""What makes the `extra` of a line. Others are functions of ours that return what one of these makes."""


CONCERNED = re.compile(r"getLogger|LogReason|basicConfig|StreamHandler|setFormatter|[lL]ogger\b")


@cache
def modules():
    """Those that may log."""
    texts = {str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    return {home: ast.parse(text) for home, text in texts.items() if CONCERNED.search(text)}


def name_of(node):
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_logger(node):
    """`_log`, `_LOG`, or what `logging.getLogger` returns."""
    if isinstance(node, ast.Call):
        return name_of(node.func) == "getLogger"
    return name_of(node).lstrip("_").lower() in {"log", "logger"}


def log_calls(module):
    for node in ast.walk(module):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in LEVELS and is_logger(called.value):
            yield node


def makers_of(module):
    """`about`, `because`, and functions that return a call of one of them."""
    found = set(MAKERS) | {"about_endpoint"}
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and name_of(node.returns) == "Extra":
            found.add(node.name)
    return found


def reasons_in(module):
    return {
        node.attr for node in ast.walk(module) if isinstance(node, ast.Attribute) and name_of(node.value) == "LogReason"
    }


def extra_of(call, module):
    """The call that makes the `extra`: in its place, or in the assignment above."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "extra"), None)
    if isinstance(given, ast.Name):
        assigned = [
            node.value
            for node in ast.walk(module)
            if isinstance(node, ast.Assign) and name_of(node.targets[0]) == given.id and node.lineno < call.lineno
        ]
        given = assigned[-1] if assigned else None
    return given if isinstance(given, ast.Call) else None


def without_reason(module):
    makers = makers_of(module)
    for call in log_calls(module):
        made = extra_of(call, module)
        if made is None or name_of(made.func) not in makers:
            yield call.lineno


def test_every_log_line_has_a_reason():
    found = {home: list(without_reason(module)) for home, module in modules().items()}
    assert sum(len(list(log_calls(module))) for module in modules().values()) > 50
    assert {home: lines for home, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("line", "lacks"),
    [
        ("_log.info('x')", [1]),
        ("_LOG.warning('x', extra={'cluster': 'a'})", [1]),
        ("logging.getLogger(__name__).error('x')", [1]),
        ("_log.log(level, 'x', extra=fields(a=1))", [1]),
        ("_log.info('x', extra=because(LogReason.SERVING))", []),
        ("extra = about(LogReason.SERVING, 'Pod', 'a')\n_log.info('x', extra=extra)", []),
        ("_log.info('x', extra=extra)", [1]),
    ],
)
def test_a_line_without_one_is_found(line, lacks):
    assert list(without_reason(ast.parse(line))) == lacks


def test_every_reason_is_used():
    used = set().union(*(reasons_in(module) for home, module in modules().items() if "log_reasons" not in home))
    assert used == set(LogReason.__members__)


def test_no_program_writes_lines_of_another_form():
    """`log_to_stderr` is the only place that sets up logging."""
    found = [
        home
        for home, module in modules().items()
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and node.attr in {"basicConfig", "StreamHandler", "setFormatter"}
    ]
    assert set(found) == {"reconcile/log_lines.py"}


def test_the_documentation_has_every_reason_with_its_meaning():
    page = (ROOT / "docs" / "operations" / "observe.md").read_text()
    rows = [f"| `{reason.value}` | {reason.meaning} |" for reason in LogReason]
    written = [line for line in page.partition("## Reasons of log lines")[2].splitlines() if line.startswith("| `")]
    assert written == rows


def test_rendered_programs_write_json():
    """Pods have no terminal, and no manifest that we render chooses text."""
    rendering = [*(PACKAGE / "compose").rglob("*.py"), *(PACKAGE / "crossplane").rglob("*.py")]
    chosen = ("--log-format", "--zap-encoder", '"--debug"')
    assert len(rendering) > 100
    assert [path.name for path in rendering if any(option in path.read_text() for option in chosen)] == []
