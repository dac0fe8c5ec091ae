"""The report of a simulation as one HTML file: no script, no other file, nothing fetched.

The policy in the file allows its own style sheet, by its hash, and nothing else.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from modelplane.k8s.admission.decode import escape as printable
from modelplane.views.simulation_report import (
    LatencyShown,
    ServiceRun,
    SimulationReport,
    StepOutcome,
    clock_text,
)
from modelplane.web.simulation_charts import replica_chart, traffic_chart, ttft_chart

LIGHT: Final = {
    "bg": "#ffffff",
    "text": "#1a1f25",
    "quiet": "#545d67",
    "line": "#d8dde3",
    "accent": "#0a58a8",
    "served": "#2a78c8",
    "shed": "#9a6b00",
    "failed": "#a3122a",
    "better": "#14672d",
}
DARK: Final = {
    "bg": "#151a20",
    "text": "#e7ecf1",
    "quiet": "#a2acb7",
    "line": "#2c343d",
    "accent": "#82bbff",
    "served": "#5aa4f2",
    "shed": "#d5a03c",
    "failed": "#ff938d",
    "better": "#62d177",
}


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


STYLE: Final = f"""\
:root{{color-scheme:light dark;{_variables(LIGHT)}font:15px/1.5 system-ui,sans-serif}}
@media(prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}
body{{margin:0 auto;max-width:64rem;padding:1rem;background:var(--bg);color:var(--text)}}
body{{font-variant-numeric:tabular-nums}}
h1{{font-size:1.5rem;margin:.5rem 0}}
h2{{font-size:1.1rem;margin:2rem 0 .5rem}}
h3{{font-size:1rem;margin:1rem 0 .3rem}}
p,li{{max-width:48rem}}
.quiet,caption{{color:var(--quiet)}}
caption{{text-align:left;padding:.2rem 0}}
.wide{{overflow-x:auto}}
table{{border-collapse:collapse;font-size:.9rem}}
th,td{{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid var(--line);vertical-align:top}}
td.number,th.number{{text-align:right}}
.better{{color:var(--better)}}
.worse,.bad{{color:var(--failed)}}
summary{{color:var(--accent);cursor:pointer}}
svg{{width:100%;height:auto;display:block}}
.axis{{fill:none;stroke:var(--quiet)}}
.tick{{fill:var(--quiet);font-size:11px}}
.mark{{fill:none;stroke:var(--text);stroke-dasharray:2 3}}
.area{{fill:var(--served);opacity:.18}}
.line{{fill:none;stroke:var(--served);stroke-width:1.8}}
.wanted{{fill:none;stroke:var(--text);stroke-width:1.2;stroke-dasharray:5 3}}
.served{{fill:var(--served)}}
.shed{{fill:var(--shed)}}
.failed{{fill:var(--failed)}}
"""
_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY: Final = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
_NOT_KNOWN: Final = "-"
_ESTIMATES: Final = (
    "Replicas are placed by Modelplane's own code on modelled clusters. Requests, times and prices are estimates: step "
    "times of engines come from measurements on one GPU and are carried over to others, prices are those of the "
    "InferenceClasses, and prompts found in caches are not counted."
)


def simulation_page(report: SimulationReport) -> str:
    title = f"Simulation {report.name}".strip()
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{_text(title)}</title>",
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            f"<h1>{_text(title)}</h1>",
            *_sections(report),
            f'<p class="quiet">{_ESTIMATES}</p>',
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _sections(report: SimulationReport) -> Iterator[str]:
    yield from _head(report)
    yield from _steps(report.steps)
    yield from _comparison(report)
    yield from _deployments(report)
    yield from _services(report)
    yield from _replicas(report)
    yield from _story(report)


def _head(report: SimulationReport) -> Iterator[str]:
    bill = report.bill
    yield f'<p class="quiet">{clock_text(report.duration_s)} of virtual time, seed {report.seed}</p>'
    if report.violation:
        yield f'<p class="bad">A rule was violated: {_text(report.violation)}</p>'
    elif not report.quiet:
        yield '<p class="bad">The fleet had not come to rest at the end.</p>'
    rows = [
        ("GPU hours of replicas", f"{bill.gpu_hours:.1f}"),
        ("Cost of deployments", _money(bill.deployments_cost, bill.currency)),
        ("Cost of all nodes", _money(bill.nodes_cost, bill.currency)),
        ("Price of a million tokens", _money(bill.per_million_tokens, bill.currency)),
    ]
    yield _table("What the run cost", ("Figure", "Value"), rows, numbers=1)


def _steps(steps: Sequence[StepOutcome]) -> Iterator[str]:
    yield "<h2>What happened</h2>"
    if not steps:
        yield "<p>Nothing was done to the fleet.</p>"
        return
    items = "".join(f"<li>{_text(step.summary)}</li>" for step in steps)
    yield f"<ol>{items}</ol>"


def _comparison(report: SimulationReport) -> Iterator[str]:
    if not report.comparison:
        return
    yield "<h2>Compared with the other run</h2>"
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Figure", "Before", "After", "Verdict"))
    body = "".join(
        f"<tr><td>{_text(row.what)}</td><td>{_figure(row.before, row.unit)}</td><td>{_figure(row.after, row.unit)}</td>"
        f'<td class="{_text(row.verdict)}">{_text(row.verdict)}</td></tr>'
        for row in report.comparison
    )
    yield (
        f'<div class="wide"><table><caption>Less is better in every row</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _deployments(report: SimulationReport) -> Iterator[str]:
    yield "<h2>Replicas over time</h2>"
    if report.steps:
        yield '<p class="quiet">Dashed: wanted. Filled: ready. Numbered lines: the steps above.</p>'
    for run in report.deployments:
        yield f"<h3>{_text(run.deployment)}</h3>"
        yield replica_chart(run, report.duration_s, report.steps)
        clusters = ", ".join(f"{number} on {name}" for name, number in run.clusters.items()) or "none placed"
        yield (
            f"<p>{_text(run.state)}: {run.serving} of {run.wanted} serve at the end, {_text(clusters)}; "
            f"{run.gpu_hours:.1f} GPU hours, {_money(run.cost, run.currency)}</p>"
        )
        rows = [(clock_text(point.at_s), point.wanted, point.placed, point.ready) for point in run.points]
        yield _details(_table(f"Changes of {run.deployment}", ("From", "Wanted", "Placed", "Ready"), rows, numbers=3))


def _services(report: SimulationReport) -> Iterator[str]:
    if not report.services:
        return
    yield "<h2>Requests</h2>"
    header = ("Service", "Requests", "Served", "Shed", "Failed", "Waiting", "TTFT p50", "p95", "p99")
    more = ("Answer p50", "p95", "p99")
    rows = [_service(run) for run in report.services]
    yield _table("Of the whole run", (*header, *more), rows, numbers=len(header) + len(more) - 1)
    for run in report.services:
        yield f"<h3>{_text(run.service)}</h3>"
        yield '<p class="quiet">Requests: served, and upon them shed and failed.</p>'
        yield traffic_chart(run, report.duration_s, report.steps)
        yield '<p class="quiet">TTFT p95 in milliseconds.</p>'
        yield ttft_chart(run, report.duration_s, report.steps)
        points = [
            (
                *(clock_text(point.at_s), point.counts.requests, point.counts.served),
                *(point.counts.shed, point.counts.failed, _milliseconds(point.ttft_p95_ms)),
            )
            for point in run.points
        ]
        head = ("From", "Requests", "Served", "Shed", "Failed", "TTFT p95")
        yield _details(_table(f"Requests to {run.service} over time", head, points, numbers=5))


def _service(run: ServiceRun) -> Sequence[object]:
    counts = run.counts
    return (
        *(run.service, counts.requests, counts.served, counts.shed, counts.failed, counts.waiting),
        *_latency(run.ttft_ms),
        *_latency(run.answer_ms),
    )


def _replicas(report: SimulationReport) -> Iterator[str]:
    yield "<h2>Where each replica went, and why</h2>"
    rows = [
        (
            *(each.replica, each.cluster, clock_text(each.placed_s)),
            *(_time(each.ready_s), _time(each.left_s), each.why_here, each.why_left),
        )
        for each in report.replicas
    ]
    header = ("Replica", "Cluster", "Placed", "Ready", "Left", "Why here", "Why it left")
    yield _table("By the time of their placement", header, rows)


def _story(report: SimulationReport) -> Iterator[str]:
    rows = [(clock_text(at), text) for at, text in report.story]
    yield "<h2>Everything in order</h2>"
    yield _details(_table("All that was recorded", ("Time", "What"), rows))


def _details(content: str) -> str:
    return f"<details><summary>As a table</summary>{content}</details>"


def _table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: int = 0) -> str:
    """The last `numbers` columns are numbers."""
    first = len(header) - numbers
    marks = ["" if at < first else ' class="number"' for at in range(len(header))]
    head = "".join(f'<th scope="col"{mark}>{_text(name)}</th>' for name, mark in zip(header, marks, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{mark}>{_text(cell)}</td>' for cell, mark in zip(row, marks, strict=True))}</tr>"
        for row in rows
    )
    return (
        f'<div class="wide"><table><caption>{_text(caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _text(value: object) -> str:
    """On one line and without what does not print: names come from manifests."""
    return escape(printable(str(value)))


def _money(amount: float | None, currency: str) -> str:
    return _NOT_KNOWN if amount is None or not currency else f"{amount:.2f} {_text(currency)}"


def _figure(value: float | None, unit: str) -> str:
    return _NOT_KNOWN if value is None else _text(f"{value:g} {unit}".strip())


def _time(seconds: float | None) -> str:
    return _NOT_KNOWN if seconds is None else clock_text(seconds)


def _latency(found: LatencyShown | None) -> Sequence[str]:
    return [_milliseconds(each) for each in ((found.p50, found.p95, found.p99) if found else (None,) * 3)]


def _milliseconds(value: int | None) -> str:
    return _NOT_KNOWN if value is None else f"{value} ms"
