"""Charts of a simulation as inline SVG, without scripts and without inline styles.

Colours are classes of the page. What a chart shows is also in its label, and its numbers are in a table beside it.
"""

from collections.abc import Iterator, Sequence
from html import escape

from modelplane.views.simulation_report import DeploymentRun, ServiceRun, StepOutcome, clock_text

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 720, 150, 44, 16, 20
_INNER = _WIDTH - _LEFT - 8
_TICKS = 6
_Points = Sequence[tuple[float, float]]


def replica_chart(run: DeploymentRun, end_s: float, steps: Sequence[StepOutcome]) -> str:
    """Wanted and ready replicas over time."""
    most = max((max(point.wanted, point.ready, point.placed) for point in run.points), default=1)
    ready = _stairs([(point.at_s, float(point.ready)) for point in run.points], end_s)
    wanted = _stairs([(point.at_s, float(point.wanted)) for point in run.points], end_s)
    label = f"{run.deployment}: replicas ready and wanted over time; {run.serving} of {run.wanted} serve at the end"
    body = [
        f'<path class="area" d="{_area(ready, end_s, most)}"/>',
        f'<path class="line" d="{_path(ready, end_s, most)}"/>',
        f'<path class="wanted" d="{_path(wanted, end_s, most)}"/>',
    ]
    return _svg(label, body, end_s, most, steps)


def traffic_chart(run: ServiceRun, end_s: float, steps: Sequence[StepOutcome]) -> str:
    """Requests of each part of the time: served, shed, failed, one upon the other."""
    totals = [point.counts.served + point.counts.shed + point.counts.failed for point in run.points]
    most = max([*totals, 1])
    counts = run.counts
    label = f"{run.service}: {counts.served} requests served, {counts.shed} shed and {counts.failed} failed over time"
    return _svg(label, list(_bars(run, most)), end_s, most, steps)


def ttft_chart(run: ServiceRun, end_s: float, steps: Sequence[StepOutcome]) -> str:
    """The time to the first token that 95 of 100 requests do not exceed."""
    known = [(point.at_s, float(point.ttft_p95_ms)) for point in run.points if point.ttft_p95_ms is not None]
    most = max([value for _, value in known], default=1.0) or 1.0
    label = f"{run.service}: time to first token in milliseconds, 95th percentile over time; {most:.0f} ms at most"
    return _svg(label, [f'<path class="line" d="{_path(known, end_s, most)}"/>'], end_s, most, steps)


def _bars(run: ServiceRun, most: float) -> Iterator[str]:
    width = _INNER / max(len(run.points), 1)
    for at, point in enumerate(run.points):
        base = 0.0
        for kind in ("served", "shed", "failed"):
            number = getattr(point.counts, kind)
            if number:
                top = _y(base + number, most)
                x, height = _LEFT + at * width, _y(base, most) - top
                yield (
                    f'<rect class="{kind}" x="{x:.1f}" y="{top:.1f}" '
                    f'width="{max(width - 0.6, 0.4):.1f}" height="{height:.1f}"/>'
                )
                base += number


def _svg(label: str, body: Sequence[str], end_s: float, most: float, steps: Sequence[StepOutcome]) -> str:
    lines = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">',
        f"<title>{escape(label)}</title>",
        *_axes(end_s, most),
        *body,
        *_marks(end_s, steps),
        "</svg>",
    ]
    return "\n".join(lines)


def _axes(end_s: float, most: float) -> Iterator[str]:
    floor, roof = _y(0, most), _y(most, most)
    yield f'<path class="axis" d="M{_LEFT} {roof:.1f}V{floor:.1f}H{_LEFT + _INNER}"/>'
    yield f'<text class="tick" x="{_LEFT - 6}" y="{roof + 4:.1f}" text-anchor="end">{most:.0f}</text>'
    yield f'<text class="tick" x="{_LEFT - 6}" y="{floor:.1f}" text-anchor="end">0</text>'
    for at in range(_TICKS + 1):
        seconds = end_s * at / _TICKS
        anchor = "start" if at == 0 else "end" if at == _TICKS else "middle"
        x = _x(seconds, end_s)
        yield f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - 5}" text-anchor="{anchor}">{clock_text(seconds)}</text>'


def _marks(end_s: float, steps: Sequence[StepOutcome]) -> Iterator[str]:
    """A line for each step, with its number in the list of steps."""
    for number, step in enumerate(steps, 1):
        x = _x(step.at_s, end_s)
        yield f'<path class="mark" d="M{x:.1f} {_TOP - 3}V{_y(0, 1):.1f}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{_TOP - 5}" text-anchor="middle">{number}</text>'


def _stairs(points: _Points, end_s: float) -> _Points:
    """A value holds until the next one."""
    found: list[tuple[float, float]] = []
    for at, value in points:
        if found:
            found.append((at, found[-1][1]))
        found.append((at, value))
    return [*found, (end_s, found[-1][1])] if found else [(0.0, 0.0), (end_s, 0.0)]


def _path(points: _Points, end_s: float, most: float) -> str:
    return "".join(
        f"{'L' if at else 'M'}{_x(seconds, end_s):.1f} {_y(value, most):.1f}"
        for at, (seconds, value) in enumerate(points)
    )


def _area(points: _Points, end_s: float, most: float) -> str:
    floor = _y(0, most)
    first, last = _x(points[0][0], end_s), _x(points[-1][0], end_s)
    return f"{_path(points, end_s, most)}L{last:.1f} {floor:.1f}L{first:.1f} {floor:.1f}Z"


def _x(seconds: float, end_s: float) -> float:
    return _LEFT + _INNER * min(seconds / end_s, 1.0) if end_s else float(_LEFT)


def _y(value: float, most: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * (value / most)
