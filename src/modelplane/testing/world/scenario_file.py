"""A scenario file: which fleet, how long, what happens when, and what clients send.

    kind: Scenario
    fleet: {manifests: [../quickstart]}     # beside this file; or kubeconfig: FILE, or data: DIR of a plane that runs
    duration: 20m
    seed: 7
    engineStart: 90s                        # until an engine with devices is ready
    steps:
    - 5m lose region us-east
    traffic:
    - service: default/chat
      curve: [{at: 0, requestsPerSecond: 4}, {at: 10m, requestsPerSecond: 12}]
      promptTokens: 800
      outputTokens: 200
      shedAfter: 30s

A field that is wrong is named: `traffic[0].curve[1].at: …`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from modelplane.api.errors import InputError
from modelplane.api.objects import API_VERSION
from modelplane.testing.world.engine_speed import RequestShape
from modelplane.testing.world.scenario_steps import NAMESPACE, ScenarioStep, read_step, read_time
from modelplane.testing.world.store import ObjectId
from modelplane.testing.world.traffic import TrafficCurve, TrafficPlan

KIND = "Scenario"
_FIELDS = ("apiVersion", "kind", "metadata", "fleet", "duration", "seed", "engineStart", "steps", "traffic")
_FLEET = ("manifests", "kubeconfig", "data")
_TRAFFIC = ("service", "curve", "requestsPerSecond", "promptTokens", "outputTokens", "shedAfter")
_POINT = ("at", "requestsPerSecond")
_MOST_TOKENS = 1_000_000
_MOST_RATE = 1e6
_PROMPT, _OUTPUT, _SHED_AFTER_S = 800, 200, 30.0


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """As it is written, checked. What it leaves out is None."""

    manifests: tuple[str, ...] = ()
    kubeconfig: str | None = None
    data: str | None = None
    duration_s: float | None = None
    seed: int | None = None
    engine_start_s: float | None = None
    steps: tuple[ScenarioStep, ...] = ()
    traffic: tuple[TrafficPlan, ...] = ()


def read_scenario(document: object) -> ScenarioFile:
    whole = _mapping(document, "the document", _FIELDS)
    if whole.get("kind", KIND) != KIND:
        raise InputError(f"kind: is {whole['kind']!r}, not {KIND}")
    if whole.get("apiVersion", API_VERSION) != API_VERSION:
        raise InputError(f"apiVersion: is {whole['apiVersion']!r}, not {API_VERSION}")
    fleet = _mapping(whole.get("fleet", {}), "fleet", _FLEET)
    if len(fleet) > 1:
        raise InputError(f"fleet: has {' and '.join(fleet)}; give one of them")
    return ScenarioFile(
        manifests=tuple(_text(each, f"fleet.manifests[{at}]") for at, each in _items(fleet, "manifests", "fleet.")),
        kubeconfig=_optional(fleet, "kubeconfig"),
        data=_optional(fleet, "data"),
        duration_s=_time(whole, "duration"),
        seed=_seed(whole),
        engine_start_s=_time(whole, "engineStart"),
        steps=tuple(_step(each, at) for at, each in _items(whole, "steps")),
        traffic=tuple(_traffic(each, f"traffic[{at}]") for at, each in _items(whole, "traffic")),
    )


def _step(text: object, at: int) -> ScenarioStep:
    try:
        return read_step(text)
    except InputError as problem:
        raise InputError(f"steps[{at}]: {problem}") from None


def _traffic(value: object, where: str) -> TrafficPlan:
    given = _mapping(value, where, _TRAFFIC)
    namespace, slash, name = _text(given.get("service"), f"{where}.service").rpartition("/")
    tokens = [
        _number(given.get(field, usual), f"{where}.{field}", least=1, most=_MOST_TOKENS, whole=True)
        for field, usual in (("promptTokens", _PROMPT), ("outputTokens", _OUTPUT))
    ]
    patience = _time(given, "shedAfter", f"{where}.")
    return TrafficPlan(
        ObjectId("ModelService", namespace if slash else NAMESPACE, name),
        _curve(given, where),
        RequestShape(int(tokens[0]), int(tokens[1])),
        _SHED_AFTER_S if patience is None else patience,
    )


def _curve(given: Mapping[str, object], where: str) -> TrafficCurve:
    if ("curve" in given) == ("requestsPerSecond" in given):
        raise InputError(f"{where}: give either curve or requestsPerSecond")
    if "requestsPerSecond" in given:
        return TrafficCurve(((0.0, _rate(given, where)),))
    points = [_point(each, f"{where}.curve[{at}]") for at, each in _items(given, "curve", f"{where}.")]
    if not points:
        raise InputError(f"{where}.curve: has no point")
    for at, (before, after) in enumerate(pairwise(points), 1):
        if after[0] <= before[0]:
            raise InputError(f"{where}.curve[{at}].at: is not after the point before it")
    return TrafficCurve(tuple(points))


def _point(value: object, where: str) -> tuple[float, float]:
    given = _mapping(value, where, _POINT)
    at_s = _time(given, "at", f"{where}.")
    if at_s is None:
        raise InputError(f"{where}.at: is missing")
    return at_s, _rate(given, where)


def _rate(given: Mapping[str, object], where: str) -> float:
    field = f"{where}.requestsPerSecond"
    return _number(given.get("requestsPerSecond"), field, least=0, most=_MOST_RATE)


def _mapping(value: object, where: str, fields: Sequence[str]) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: is not an object with {', '.join(fields)}")
    unknown = [name for name in value if name not in fields]
    if unknown:
        place = "" if where == "the document" else f"{where}."
        raise InputError(f"{place}{unknown[0]}: unknown field; there are {', '.join(fields)}")
    return value


def _items(given: Mapping[str, object], field: str, where: str = "") -> list[tuple[int, object]]:
    found = given.get(field, [])
    if not isinstance(found, list):
        raise InputError(f"{where}{field}: is not a list")
    return list(enumerate(found))


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{where}: is {'missing' if value is None else 'not a text'}")
    return value


def _optional(given: Mapping[str, object], field: str) -> str | None:
    return _text(given[field], f"fleet.{field}") if field in given else None


def _seed(whole: Mapping[str, object]) -> int | None:
    return int(_number(whole["seed"], "seed", least=0, most=2**53, whole=True)) if "seed" in whole else None


def _time(given: Mapping[str, object], field: str, where: str = "") -> float | None:
    if field not in given:
        return None
    found = read_time(given[field])
    if found is None:
        raise InputError(f"{where}{field}: is {given[field]!r}; write a time such as 90s, 20m or 1h30m")
    return found


def _number(value: object, where: str, *, least: float, most: float, whole: bool = False) -> float:
    right = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not right or not isinstance(value, int | float) or not least <= value <= most:
        kind = "a whole number" if whole else "a number"
        raise InputError(f"{where}: is {value!r}, not {kind} from {least:g} to {most:g}")
    return float(value)
