"""What clients get from canaries, judged by limits.

The figures are facts of the canaries' ModelEndpoints, in `status.traffic`: whoever carries the requests measures them,
over the window that the analysis names. A fact of another revision or an old one counts as none.

    NotMeasured      no fact of a canary, or of the stable revision where it is compared with
    TooFewRequests   fewer than minRequests in the window, which is never a pass
    Failing          a limit is exceeded
    Measuring        none is so far, and the window does not lie in the step yet
    Passing          none is

Requests and errors of all canaries are added. Of their 95th percentiles the worst counts; those of the stable revision
are averaged by requests, since percentiles of several endpoints cannot be merged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from modelplane.api.labels import REVISION
from modelplane.api.models import CanaryLimits, EndpointTraffic, StableLimits
from modelplane.api.objects import Manifest, int_at, labels_of, value_at
from modelplane.api.timestamps import epoch_s

_DEFAULT_WINDOW_S = 60
_STALE_S = 60.0
"""A fact counts for its window and this long after it."""
_UNMEASURED = (
    "the requests of the canaries are not measured: status.traffic of their ModelEndpoints is absent or old; "
    "the step waits to be promoted"
)


class Verdict(StrEnum):
    PASSING = "Passing"
    MEASURING = "Measuring"
    FAILING = "Failing"
    TOO_FEW = "TooFewRequests"
    NOT_MEASURED = "NotMeasured"


@dataclass(frozen=True, slots=True)
class CanaryFinding:
    verdict: Verdict
    message: str


@dataclass(frozen=True, slots=True)
class TrafficFigures:
    """The facts of several endpoints as one."""

    requests: int
    errors: int
    measured_at: float
    ttft_ms: float | None = None
    latency_ms: float | None = None

    @property
    def error_percent(self) -> float:
        return 100.0 * self.errors / self.requests if self.requests else 0.0


def judge(
    limits: CanaryLimits, canaries: TrafficFigures | None, stable: TrafficFigures | None, since: float
) -> CanaryFinding:
    """It passes by what was measured at `since` or after: the window lies in the step then."""
    if canaries is None:
        return CanaryFinding(Verdict.NOT_MEASURED, _UNMEASURED)
    if canaries.requests < limits.min_requests:
        words = f"{canaries.requests} of at least {limits.min_requests} requests in {limits.window_seconds} s"
        return CanaryFinding(Verdict.TOO_FEW, words)
    found = [*_absolute(limits, canaries), *_compared(limits, canaries, stable)]
    failing = [words for verdict, words in found if verdict is Verdict.FAILING]
    if failing:
        return CanaryFinding(Verdict.FAILING, "; ".join(failing))
    missing = [words for verdict, words in found if verdict is not Verdict.PASSING]
    if missing:
        return CanaryFinding(Verdict.NOT_MEASURED, "; ".join(missing))
    verdict = Verdict.MEASURING if int(since) > canaries.measured_at else Verdict.PASSING
    return CanaryFinding(verdict, "; ".join(words for _, words in found))


def _absolute(limits: CanaryLimits, canaries: TrafficFigures) -> Iterator[tuple[Verdict, str]]:
    if limits.max_error_rate is not None:
        yield _errors(canaries, percent(limits.max_error_rate))
    if limits.max_ttft_milliseconds is not None:
        yield _time("TTFT", canaries.ttft_ms, limits.max_ttft_milliseconds)
    if limits.max_latency_milliseconds is not None:
        yield _time("latency", canaries.latency_ms, limits.max_latency_milliseconds)


def _compared(
    limits: CanaryLimits, canaries: TrafficFigures, stable: TrafficFigures | None
) -> Iterator[tuple[Verdict, str]]:
    given = limits.stable
    if given is None or given == StableLimits():
        return
    if stable is None:
        yield Verdict.NOT_MEASURED, "the requests of the stable revision are not measured"
    elif stable.requests < limits.min_requests:
        words = f"the stable revision has {stable.requests} of at least {limits.min_requests} requests"
        yield Verdict.TOO_FEW, words
    else:
        yield from _ratios(given, canaries, stable)


def _ratios(given: StableLimits, canaries: TrafficFigures, stable: TrafficFigures) -> Iterator[tuple[Verdict, str]]:
    if given.max_error_rate_above is not None:
        yield _errors(canaries, min(100.0, stable.error_percent + percent(given.max_error_rate_above)))
    if given.max_ttft_percent is not None:
        yield _ratio("TTFT", canaries.ttft_ms, stable.ttft_ms, given.max_ttft_percent)
    if given.max_latency_percent is not None:
        yield _ratio("latency", canaries.latency_ms, stable.latency_ms, given.max_latency_percent)


def _errors(canaries: TrafficFigures, limit: float) -> tuple[Verdict, str]:
    failed, rate = canaries.errors, canaries.error_percent
    words = f"{failed} of {canaries.requests} requests failed ({rate:.1f} %, limit {limit:g} %)"
    return (Verdict.FAILING if rate > limit else Verdict.PASSING), words


def _time(what: str, found: float | None, limit: float) -> tuple[Verdict, str]:
    if found is None:
        return Verdict.NOT_MEASURED, f"{what} is not measured"
    return (Verdict.FAILING if found > limit else Verdict.PASSING), f"p95 {what} {found:.0f} ms (limit {limit:.0f} ms)"


def _ratio(what: str, found: float | None, stable: float | None, limit: int) -> tuple[Verdict, str]:
    if found is None or stable is None:
        return Verdict.NOT_MEASURED, f"{what} is not measured"
    words = f"p95 {what} {found:.0f} ms, of the stable revision {stable:.0f} ms (limit {limit} % of it)"
    return (Verdict.FAILING if found > stable * limit / 100.0 else Verdict.PASSING), words


def analysed_window_s(deployment: Manifest) -> int | None:
    """None where no canary is analysed: none is wanted, or the revision is promoted or halted."""
    analysis = value_at(deployment, "spec", "rollout", "canary", "analysis")
    if not isinstance(analysis, dict) or value_at(deployment, "status", "rollout", "promoted") is not False:
        return None
    if value_at(deployment, "status", "rollout", "halted") is not None:
        return None
    return int_at(analysis, "windowSeconds") or _DEFAULT_WINDOW_S


def percent(text: str) -> float:
    """`2%` as 2.0. The schema admits nothing else."""
    return float(text.removesuffix("%"))


def canary_figures(endpoints: Sequence[Manifest], now: float) -> TrafficFigures | None:
    """None where the traffic of one of them is not known: it may be the one that fails."""
    found = [_figures(item, now) for item in endpoints]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    return TrafficFigures(
        requests=sum(each.requests for each in known),
        errors=sum(each.errors for each in known),
        measured_at=min(each.measured_at for each in known),
        ttft_ms=max((each.ttft_ms for each in known if each.ttft_ms is not None), default=None),
        latency_ms=max((each.latency_ms for each in known if each.latency_ms is not None), default=None),
    )


def stable_figures(endpoints: Sequence[Manifest], now: float) -> TrafficFigures | None:
    """Of those that are known; None where none is."""
    known = [each for item in endpoints if (each := _figures(item, now)) is not None]
    if not known:
        return None
    return TrafficFigures(
        requests=sum(each.requests for each in known),
        errors=sum(each.errors for each in known),
        measured_at=min(each.measured_at for each in known),
        ttft_ms=_mean([(each.requests, each.ttft_ms) for each in known]),
        latency_ms=_mean([(each.requests, each.latency_ms) for each in known]),
    )


def _mean(found: Sequence[tuple[int, float | None]]) -> float | None:
    known = [(requests, value) for requests, value in found if value is not None and requests]
    total = sum(requests for requests, _ in known)
    return sum(requests * value for requests, value in known) / total if total else None


def endpoint_traffic(endpoint: Manifest, now: float) -> EndpointTraffic | None:
    """What was measured of the revision that it has; None where that is nothing, or too long ago."""
    found = _measured(endpoint, now)
    return found[0] if found is not None else None


def _figures(endpoint: Manifest, now: float) -> TrafficFigures | None:
    found = _measured(endpoint, now)
    if found is None:
        return None
    traffic, at = found
    times = traffic.ttft_p95_milliseconds, traffic.latency_p95_milliseconds
    return TrafficFigures(traffic.requests, traffic.errors, at, *times)


def _measured(endpoint: Manifest, now: float) -> tuple[EndpointTraffic, float] | None:
    """With the time of the measurement."""
    try:
        found = msgspec.convert(value_at(endpoint, "status", "traffic"), EndpointTraffic)
    except msgspec.ValidationError:
        return None
    at = epoch_s(found.measured_at)
    if at is None or not now or now - at > found.window_seconds + _STALE_S:
        return None
    return (found, at) if found.revision == labels_of(endpoint).get(REVISION) else None
