"""A logged decision, made again: the scheduler runs on the recording, and the differences are listed.

The log is JSON lines. A sampled decision has a recording, with the digest of its configuration; an earlier line has the
text of that configuration. If another text is passed, its digest must match.

`Replayable` plugins get their captured state restored in place of `produce`. Everything else runs again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import unified_diff
from functools import partial
from typing import Final

import msgspec

from modelplane.api.errors import InputError
from modelplane.epp.config.config import Config, load
from modelplane.epp.config.outline import outline
from modelplane.epp.replay.explain import PickExplanation, explain_by
from modelplane.epp.replay.recording import RecordedOutcome, Recording, RequestFacts, digest_of
from modelplane.epp.replay.snapshot import PoolState, read_endpoint
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.plugins import Producer, Replayable
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.framework.registry import Registry

DECISION: Final = "decision"
CONFIGURATION: Final = "configuration"


class LoggedDecision(msgspec.Struct, frozen=True):
    """The fields of a log line that a replay reads."""

    event: str = ""
    at: str = ""
    request: str = ""
    outcome: str = ""
    status: int = 0
    endpoint: str = ""
    why: str = ""
    config: str = ""
    """The digest of the configuration."""
    text: str = ""
    """The configuration itself, in lines about it."""
    replay: Recording | None = None


class ReplayedPick(msgspec.Struct, frozen=True, rename="camel"):
    request: str
    at: str
    explanation: PickExplanation
    differences: tuple[str, ...]
    """The differences from the recording; empty: none."""


def read_log(lines: Iterable[bytes], source: str) -> tuple[list[LoggedDecision], dict[str, str]]:
    """The decisions of a log, and the texts of configurations by their digests.

    A log on standard output has other lines in between; lines without a JSON object are skipped.
    """
    decisions: list[LoggedDecision] = []
    texts: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.startswith(b"{"):
            continue
        try:
            found = msgspec.json.decode(line, type=LoggedDecision)
        except msgspec.DecodeError as error:
            raise InputError(f"{source}:{number}: not a line of a decision log: {error}") from error
        if found.event == CONFIGURATION:
            texts[found.config] = found.text
        elif found.event == DECISION:
            decisions.append(found)
    return decisions, texts


class Replayer:
    """Has the configurations of one log. `given` replaces the one in the log."""

    def __init__(self, texts: Mapping[str, str], registry: Registry, given: Config | None = None) -> None:
        self._texts = texts
        self._registry = registry
        self._given = given
        self._loaded: dict[str, Config] = {}

    def replay(self, logged: LoggedDecision) -> ReplayedPick:
        """Raises InputError if there is no recording, or the configuration differs."""
        if logged.replay is None:
            sentence = f" ({logged.why})" if logged.why else ""
            raise InputError(f"ended as {logged.outcome}{sentence} before any plugin ran")
        return replay(self._config(logged.config), logged.replay, logged.request, logged.at)

    def _config(self, digest: str) -> Config:
        found = self._loaded.get(digest)
        if found is None:
            found = self._loaded[digest] = self._find(digest)
        return found

    def _find(self, digest: str) -> Config:
        text = self._texts.get(digest)
        written = None if text is None else load(text, "the log's configuration", self._registry)
        config = self._given or written
        if config is None:
            raise InputError(f"was decided with configuration {digest}, which is not in the log; pass it as --config")
        own = digest_of(config)
        if own == digest:
            return config
        shown = "" if written is None or self._given is None else _difference(written, self._given)
        whose = f"{self._given.source} is" if self._given is not None else "this version reads it as"
        raise InputError(f"was decided with configuration {digest}; {whose} {own}{shown}")


def replay(config: Config, recording: Recording, request: str = "", at: str = "") -> ReplayedPick:
    endpoints = tuple(read_endpoint(each, recording.now) for each in recording.endpoints)
    state = PoolState(recording.now, endpoints)
    scheduler = _restored(config, recording.memories)
    facts = recording.request
    found = explain_by(scheduler, config, _request(facts, request), state, _drawing(recording.chance))
    differences = _differences(recording.ending, _ending(found, [endpoint.name for endpoint in endpoints]))
    if differences and facts.kept_out:
        differences = (*differences, f"headers that were read and are not in the log: {', '.join(facts.kept_out)}")
    return ReplayedPick(request, at, found, differences)


def _restored(config: Config, memories: Mapping[str, object]) -> Scheduler:
    """A scheduler whose plugins have the captured state."""
    scheduler = Scheduler(config.build())
    producers: list[tuple[str, Callable[[SchedulingContext], None]]] = []
    for plugin in scheduler.assembly.plugins.values():
        if isinstance(plugin, Replayable):
            if plugin.name in memories:
                producers.append((plugin.name, partial(_restore, plugin, memories[plugin.name])))
        elif isinstance(plugin, Producer):
            producers.append((plugin.name, plugin.produce))
    scheduler.producers = producers
    return scheduler


def _restore(plugin: Replayable, memory: object, context: SchedulingContext) -> None:
    plugin.restore(context, memory)


def _request(facts: RequestFacts, identity: str) -> Request:
    """Like the recorded one for plugins that read the length of prompts and not their text."""
    return Request(
        identity,
        facts.model,
        facts.api,
        tuple(map(bytes, facts.prompt_bytes)),
        facts.headers,
        facts.priority,
        facts.tenant,
        facts.size,
        facts.max_output_tokens,
        facts.streaming,
        "",
        facts.has_media,
        facts.subset,
        facts.ttft_goal,
        facts.tpot_goal,
        facts.received,
        tuple((0,) * count for count in facts.prompt_tokens),
    )


def _drawing(draws: Sequence[float]) -> Callable[[], float]:
    """The recorded random numbers, in order; then always 0."""
    left = iter(draws)
    return lambda: next(left, 0.0)


def _ending(found: PickExplanation, names: Sequence[str]) -> RecordedOutcome:
    totals = {
        profile.name: {each.name: each.total for each in profile.endpoints if each.total is not None}
        for profile in found.profiles
    }
    return RecordedOutcome(
        outcome=found.outcome,
        why=found.why,
        groups=found.groups,
        picks={profile.name: profile.picks for profile in found.profiles},
        totals={name: tuple(each.get(endpoint) for endpoint in names) for name, each in totals.items() if each},
    )


def _differences(recorded: RecordedOutcome, found: RecordedOutcome) -> tuple[str, ...]:
    differences: list[str] = []
    for field in ("outcome", "why", "groups", "picks"):
        before, after = getattr(recorded, field), getattr(found, field)
        if before != after:
            differences.append(f"{field}: recorded {before or 'none'}, replayed {after or 'none'}")
    for profile in sorted(recorded.totals.keys() | found.totals.keys()):
        before, after = recorded.totals.get(profile, ()), found.totals.get(profile, ())
        if before != after:
            differences.append(f"totals of profile {profile}: recorded {list(before)}, replayed {list(after)}")
    return tuple(differences)


def _difference(recorded: Config, given: Config) -> str:
    lines = unified_diff(
        list(outline(recorded).lines()), list(outline(given).lines()), "log", given.source, "", "", 0, ""
    )
    return "".join(f"\n{line}" for line in lines)
