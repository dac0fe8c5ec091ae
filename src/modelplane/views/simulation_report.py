"""What `modelplane simulate -o json` prints. Field names are stable, and one seed gives the same bytes.

Times are seconds since the beginning, in virtual time. Requests, times to the first token and prices are estimates: see
`docs/simulation.md` for what they are made of.
"""

import msgspec


class LatencyShown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Milliseconds."""

    p50: int
    p95: int
    p99: int


class RequestCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Every request is in exactly one of the last four."""

    requests: int = 0
    served: int = 0
    shed: int = 0
    """Refused because they would have waited for too long."""
    failed: int = 0
    """Nobody answered, or the engine that answered was lost."""
    waiting: int = 0
    """At the end of the run."""


class TrafficPoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the time: what clients sent in it, and got."""

    at_s: float
    counts: RequestCounts
    ttft_p95_ms: int | None = None


class ServiceRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    service: str
    counts: RequestCounts
    ttft_ms: LatencyShown | None
    """None where nothing was served."""
    answer_ms: LatencyShown | None
    input_tokens: int
    output_tokens: int
    points: tuple[TrafficPoint, ...]


class ReplicaPoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """From here on. `ready` is what the deployment reports."""

    at_s: float
    wanted: int
    placed: int
    ready: int


class DeploymentRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    deployment: str
    wanted: int
    placed: int
    serving: int
    """Those that answer at the end, whatever is reported."""
    clusters: dict[str, int]
    state: str
    """Ready, or what stands in its way."""
    gpu_hours: float
    cost: float | None
    """Of the parts of nodes that its replicas took. None where a class has no price."""
    currency: str
    points: tuple[ReplicaPoint, ...]


class ReplicaRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One replica, from its placement on."""

    replica: str
    deployment: str
    cluster: str
    placed_s: float
    ready_s: float | None
    """When it was reported ready first. None: never."""
    left_s: float | None
    why_here: str
    why_left: str


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A step, and what became of the fleet until the next one."""

    at_s: float
    step: str
    summary: str
    until_s: float
    moved: int
    """Replicas that were placed anew for others that were lost or had to leave."""
    recovered_s: float | None
    """After how long as many replicas were ready as wanted. None: not until the next step, or none was missing."""
    counts: RequestCounts
    ttft_p95_ms: int | None


class FleetBill(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of the whole run. `nodes_cost` is that of all nodes, used or not; None where a class has no price."""

    gpu_hours: float
    deployments_cost: float | None
    nodes_cost: float | None
    currency: str
    per_million_tokens: float | None
    """Of what deployments cost, over the tokens that were served."""


class ComparedFigure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A figure of this run beside that of another."""

    what: str
    unit: str
    before: float | None
    after: float | None
    verdict: str
    """better, worse, same, or unknown where one of them has none."""


class SimulationReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    seed: int
    duration_s: float
    quiet: bool
    """Whether nothing was written in the last seconds."""
    violation: str
    """A rule that the fleet broke; empty where it broke none."""
    steps: tuple[StepOutcome, ...]
    deployments: tuple[DeploymentRun, ...]
    services: tuple[ServiceRun, ...]
    replicas: tuple[ReplicaRun, ...]
    bill: FleetBill
    story: tuple[tuple[float, str], ...]
    comparison: tuple[ComparedFigure, ...] = ()
    """With the run that this one was compared with."""


def clock_text(seconds: float) -> str:
    """`02:00:05`: hours, minutes and seconds since the beginning; a day and more has more hours."""
    whole = int(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def report_bytes(report: SimulationReport) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def read_report(text: bytes) -> SimulationReport:
    """Raises msgspec.DecodeError, which names the field."""
    return msgspec.json.decode(text, type=SimulationReport)
