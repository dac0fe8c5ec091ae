"""The plugins that `modelplane picker new-plugin` writes, of the kinds around a decision: queues, bodies, data."""

from typing import Final

from modelplane.cli._plugin_package import PluginTemplate

_DETECTOR = PluginTemplate(
    "Measures how saturated the pool is; flow control holds requests back at 1.",
    '''\
"""The pool is saturated when as many requests wait as its endpoints may have waiting."""

from collections.abc import Mapping, Sequence

from modelplane.epp.plugins import Endpoint, Parameters, plugin_type


class ${klass}Parameters(Parameters, frozen=True):
    waiting: int = 8


class ${klass}:
    def __init__(self, name: str, parameters: ${klass}Parameters) -> None:
        self.name = name
        self._waiting = parameters.waiting

    def saturation(self, endpoints: Sequence[Endpoint], _now_s: float, _grown: Mapping[Endpoint, int], /) -> float:
        return sum(endpoint.waiting for endpoint in endpoints) / (self._waiting * max(1, len(endpoints)))


TYPES = (plugin_type("${name}", ${klass}, ${klass}Parameters).serving_as("detector"),)
''',
    """\
def test_waiting_requests_saturate():
    plugin = ${klass}("${name}", ${klass}Parameters(waiting=4))
    endpoints = [endpoint("a", metrics=EndpointMetrics(waiting=4.0)), endpoint("b")]
    assert plugin.saturation(endpoints, 0.0, {}) == 0.5
""",
    """\
featureGates: [flowControl]
plugins:
- type: ${name}
flowControl:
  saturationDetector:
    pluginRef: ${name}
""",
)

_ORDERING = PluginTemplate(
    "Orders the queued requests of a flow: the lowest key is dispatched first.",
    '''\
"""Dispatches short prompts first."""

from modelplane.epp.plugins import FlowItem, NoParameters, plugin_type


class ${klass}:
    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def order(self, item: FlowItem, _ttl_s: float, /) -> float:
        return float(item.tokens)


TYPES = (plugin_type("${name}", ${klass}, NoParameters).serving_as("ordering"),)
''',
    """\
def test_short_prompts_come_first():
    plugin = ${klass}("${name}", NoParameters())
    items = [FlowItem(at, Request("r", prompts=(b"x" * size,)), 0.0) for at, size in enumerate((80, 8))]
    assert [plugin.order(item, 0.0) for item in items] == [20.0, 2.0]
""",
    """\
featureGates: [flowControl]
plugins:
- type: ${name}
flowControl:
  defaultPriorityBand:
    orderingPolicyRef: ${name}
""",
)

_USAGE_LIMIT = PluginTemplate(
    "Sets, for each priority, the saturation up to which it is dispatched.",
    '''\
"""Keeps a share of the pool for the highest priority."""

from collections.abc import Sequence

from modelplane.epp.plugins import Parameters, plugin_type


class ${klass}Parameters(Parameters, frozen=True):
    others: float = 0.8


class ${klass}:
    def __init__(self, name: str, parameters: ${klass}Parameters) -> None:
        self.name = name
        self._others = parameters.others

    def ceilings(self, priorities: Sequence[int], _saturation: float, /) -> list[float]:
        return [1.0 if rank == 0 else self._others for rank in range(len(priorities))]


TYPES = (plugin_type("${name}", ${klass}, ${klass}Parameters).serving_as("usage limit"),)
''',
    """\
def test_the_highest_priority_may_use_all():
    assert ${klass}("${name}", ${klass}Parameters()).ceilings([5, 0, -1], 0.5) == [1.0, 0.8, 0.8]
""",
    """\
featureGates: [flowControl]
plugins:
- type: ${name}
flowControl:
  usageLimitPolicyPluginRef: ${name}
""",
)

_PARSER = PluginTemplate(
    "Parses the bodies of paths that the picker does not know.",
    '''\
"""Parses requests to rerank documents: the query and the documents are prompts."""

import msgspec
from modelplane.epp.plugins import NoParameters, Parsed, plugin_type


class ${klass}Body(msgspec.Struct):
    model: str
    query: str
    documents: list[str]


class ${klass}:
    paths = ("v1/rerank", "v2/rerank")

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def parse(self, body: bytes, /) -> Parsed:
        found = msgspec.json.decode(body, type=${klass}Body)
        return Parsed(found.model, tuple(f"{found.query}\\n{each}".encode() for each in found.documents))


TYPES = (plugin_type("${name}", ${klass}, NoParameters).serving_as("parser"),)
''',
    """\
def test_every_document_is_a_prompt():
    body = b'{"model": "m", "query": "q", "documents": ["a", "b"]}'
    assert ${klass}("${name}", NoParameters()).parse(body) == Parsed("m", (b"q\\na", b"q\\nb"))
""",
    """\
plugins:
- type: openai-parser
- type: ${name}
requestHandler:
  parsers:
  - pluginRef: openai-parser
  - pluginRef: ${name}
""",
)

_SOURCE = PluginTemplate(
    "Reads numbers about endpoints from elsewhere, for their attributes.",
    '''\
"""Reads the power draw of endpoints from a JSON file, and prefers those that draw least."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
from modelplane.epp.plugins import Duration, Endpoint, NoParameters, Parameters, SchedulingContext, plugin_type


class ${klass}Parameters(Parameters, frozen=True):
    path: str = "watts.json"
    interval: Duration = Duration(5)


class ${klass}:
    def __init__(self, name: str, parameters: ${klass}Parameters) -> None:
        self.name = name
        self.interval_s = float(parameters.interval)
        self._path = Path(parameters.path)

    async def collect(self, endpoints: Sequence[Endpoint], /) -> dict[Endpoint, dict[str, float]]:
        text = await asyncio.to_thread(self._path.read_bytes)
        watts = msgspec.json.decode(text, type=dict[str, float])
        return {each: {"watts": watts[each.name]} for each in endpoints if each.name in watts}


class ${klass}Scorer:
    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def score(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        return [1.0 / (1.0 + max(0.0, endpoint.attributes.get("watts", 0.0))) for endpoint in endpoints]


TYPES = (
    plugin_type("${name}", ${klass}, ${klass}Parameters).serving_as("source"),
    plugin_type("${name}-scorer", ${klass}Scorer, NoParameters),
)
''',
    """\
def test_the_file_is_read(tmp_path):
    path = tmp_path / "watts.json"
    path.write_text('{"a": 250.0}')
    known, unknown = endpoint("a"), endpoint("b")
    plugin = ${klass}("${name}", ${klass}Parameters(path=str(path)))
    assert asyncio.run(plugin.collect([known, unknown])) == {known: {"watts": 250.0}}
""",
    """\
plugins:
- type: ${name}
- type: ${name}-scorer
dataLayer:
  sources:
  - pluginRef: ${name}
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: ${name}-scorer
""",
)

DATA_TEMPLATES: Final = {
    "detector": _DETECTOR,
    "ordering": _ORDERING,
    "usage-limit": _USAGE_LIMIT,
    "parser": _PARSER,
    "source": _SOURCE,
}
