"""Why the fleet router sent a request where it did, as it is served and shown."""

import msgspec


class CandidateStep(msgspec.Struct, frozen=True, rename="camel"):
    """What became of one endpoint."""

    endpoint: str
    refused_by: str = ""
    why: str = ""
    total: float = 0.0
    scores: dict[str, float] = {}


class AttemptShown(msgspec.Struct, frozen=True, rename="camel"):
    """One decision, and how it ended."""

    number: int
    outcome: str
    endpoint: str
    why: str
    status: int
    duration_ms: float
    """Negative while it runs."""
    candidates: tuple[CandidateStep, ...]


class RequestShown(msgspec.Struct, frozen=True, rename="camel"):
    """A request with its attempts."""

    id: str
    service: str
    model: str
    path: str
    caller: str
    residency: str
    session: bool
    age_s: float
    attempts: tuple[AttemptShown, ...]


def headline(request: RequestShown) -> str:
    """What happened to the request, in one sentence."""
    service = request.service or "no service"
    if not request.attempts:
        return f"request {request.id}: {service}: not decided"
    last = request.attempts[-1]
    tries = "" if len(request.attempts) == 1 else f", attempt {last.number}"
    if not last.endpoint:
        return f"request {request.id}: {service}: {last.outcome} ({last.status}): {last.why}{tries}"
    return f"request {request.id}: {service}: sent to {last.endpoint}, {ending(last)}{tries}"


def ending(attempt: AttemptShown) -> str:
    """How an attempt ended."""
    if attempt.duration_ms < 0.0:
        return "still running"
    status = str(attempt.status) if attempt.status else "no response"
    return f"{status} after {attempt.duration_ms:.1f} ms"


def details(request: RequestShown) -> str:
    """What of the request mattered."""
    named = {"path": request.path, "model": request.model, "caller": request.caller, "residency": request.residency}
    parts = [f"{name} {value}" for name, value in named.items() if value]
    return ", ".join([*parts, *(["with a session"] if request.session else [])])


def rows(attempt: AttemptShown) -> list[tuple[str, str, str, str]]:
    """The verdict, the endpoint, its score and the reason, for each candidate."""
    return [_row(attempt, each) for each in attempt.candidates]


def _row(attempt: AttemptShown, step: CandidateStep) -> tuple[str, str, str, str]:
    if step.refused_by:
        return "refused", step.endpoint, "-", f"{step.refused_by}: {step.why}"
    verdict = "chosen" if step.endpoint == attempt.endpoint else "admitted"
    scores = ", ".join(f"{name} {value:.2f}" for name, value in step.scores.items())
    return verdict, step.endpoint, f"{step.total:.3f}", scores
