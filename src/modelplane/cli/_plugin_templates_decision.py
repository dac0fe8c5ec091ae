"""The plugins that `modelplane picker new-plugin` writes, of the kinds that take part in a decision.

docs/picker-plugins.md shows the modules as they are here. A test writes and runs every one of them.
"""

from typing import Final

from modelplane.cli._plugin_package import PluginTemplate

_FILTER = PluginTemplate(
    "Refuses endpoints that cannot serve a request.",
    '''\
"""Keeps requests away from endpoints under maintenance."""

from modelplane.epp.plugins import Endpoint, Parameters, Refusal, RefusalCode, SchedulingContext, plugin_type


class ${klass}Parameters(Parameters, frozen=True):
    label: str = "maintenance"


class ${klass}:
    def __init__(self, name: str, parameters: ${klass}Parameters) -> None:
        self.name = name
        self._label = parameters.label

    def refuse(self, _context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        if endpoint.labels.get(self._label) != "true":
            return None
        return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "{} is under maintenance", (endpoint.name,))


TYPES = (plugin_type("${name}", ${klass}, ${klass}Parameters),)
''',
    """\
def test_endpoints_under_maintenance_are_refused():
    plugin = ${klass}("${name}", ${klass}Parameters())
    away, there = endpoint("a", labels={"maintenance": "true"}), endpoint("b")
    refused = [plugin.refuse(context_of([away, there]), each) is not None for each in (away, there)]
    assert refused == [True, False]
""",
)

_SCORER = PluginTemplate(
    "Scores endpoints in [0, 1]; the weighted mean of all scorers decides.",
    '''\
"""Prefers endpoints of one tier."""

from collections.abc import Sequence

from modelplane.epp.plugins import Endpoint, Parameters, SchedulingContext, plugin_type


class ${klass}Parameters(Parameters, frozen=True):
    label: str = "tier"
    value: str = "gold"


class ${klass}:
    def __init__(self, name: str, parameters: ${klass}Parameters) -> None:
        self.name = name
        self._label = parameters.label
        self._value = parameters.value

    def score(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        return [1.0 if endpoint.labels.get(self._label) == self._value else 0.0 for endpoint in endpoints]


TYPES = (plugin_type("${name}", ${klass}, ${klass}Parameters),)
''',
    """\
def test_the_tier_is_preferred():
    plugin = ${klass}("${name}", ${klass}Parameters())
    endpoints = [endpoint("a"), endpoint("b", labels={"tier": "gold"})]
    assert plugin.score(context_of(endpoints), endpoints) == [0.0, 1.0]
""",
)

_PICKER = PluginTemplate(
    "Puts scored endpoints in order; the proxy tries them in it.",
    '''\
"""Takes the best score; of equal ones, the endpoint with the fewest requests in flight."""

from collections.abc import Sequence

from modelplane.epp.plugins import Endpoint, NoParameters, SchedulingContext, Scored, plugin_type


class ${klass}:
    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def pick(self, _context: SchedulingContext, scored: Sequence[Scored[Endpoint]], /) -> list[Scored[Endpoint]]:
        return sorted(scored, key=lambda each: (-each.total, each.candidate.requests_in_flight, each.candidate.name))


TYPES = (plugin_type("${name}", ${klass}, NoParameters),)
''',
    """\
def test_of_equal_scores_the_idlest_is_first():
    busy, idle, worse = endpoint("a", in_flight=(3, 0)), endpoint("b"), endpoint("c")
    scored = [Scored(busy, 1.0, ()), Scored(idle, 1.0, ()), Scored(worse, 0.5, ())]
    ranked = ${klass}("${name}", NoParameters()).pick(context_of([busy, idle, worse]), scored)
    assert [each.candidate.name for each in ranked] == ["b", "a", "c"]
""",
)

_HANDLER = PluginTemplate(
    "Picks the scheduling profiles of a request, and makes the decision of their results.",
    '''\
"""Runs the profile that a header names, else the first one."""

from collections.abc import Sequence

from modelplane.epp.plugins import Decision, Parameters, Profiles, SchedulingContext, decision_from, plugin_type


class ${klass}Parameters(Parameters, frozen=True):
    header: str = "x-profile"


class ${klass}:
    def __init__(self, name: str, parameters: ${klass}Parameters) -> None:
        self.name = name
        self._header = parameters.header

    def pick_profiles(self, context: SchedulingContext, profiles: Profiles, /) -> Sequence[str]:
        if context.results:
            return ()
        wanted = context.request.headers.get(self._header, "")
        return (wanted if wanted in profiles else next(iter(profiles)),)

    def process_results(self, context: SchedulingContext, /) -> Decision:
        ((profile, result),) = context.results.items()
        return decision_from(profile, result)


TYPES = (plugin_type("${name}", ${klass}, ${klass}Parameters),)
''',
    """\
def test_the_header_names_the_profile():
    plugin = ${klass}("${name}", ${klass}Parameters())
    profiles = {"small": None, "large": None}
    contexts = [context_of([endpoint()], Request("r", headers={"x-profile": each})) for each in ("large", "none")]
    assert [plugin.pick_profiles(context, profiles) for context in contexts] == [("large",), ("small",)]
""",
    """\
plugins:
- type: ${name}
schedulingProfiles:
- name: default
""",
)

_PRODUCER = PluginTemplate(
    "Produces data of a request before profiles run, for plugins that consume it.",
    '''\
"""Finds long prompts, and sends them to the endpoints with the most free KV cache."""

from collections.abc import Sequence

from modelplane.epp.plugins import Endpoint, NoParameters, Parameters, SchedulingContext, StateKey, plugin_type

IS_LONG: StateKey[bool] = StateKey("${name}")


class ${klass}Parameters(Parameters, frozen=True):
    tokens: int = 4096


class ${klass}:
    def __init__(self, name: str, parameters: ${klass}Parameters) -> None:
        self.name = name
        self._tokens = parameters.tokens

    def produce(self, context: SchedulingContext, /) -> None:
        context.put(IS_LONG, context.request.tokens >= self._tokens)


class ${klass}Scorer:
    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        return [endpoint.kv_free if context.get(IS_LONG) else 0.0 for endpoint in endpoints]


TYPES = (
    plugin_type("${name}", ${klass}, ${klass}Parameters, produces="${name}"),
    plugin_type("${name}-scorer", ${klass}Scorer, NoParameters, consumes=("${name}",)),
)
''',
    """\
def test_long_prompts_are_found():
    plugin = ${klass}("${name}", ${klass}Parameters(tokens=4))
    contexts = [context_of([endpoint()], Request("r", prompts=(prompt,))) for prompt in (b"x" * 8, b"x" * 80)]
    for context in contexts:
        plugin.produce(context)
    assert [context.get(IS_LONG) for context in contexts] == [False, True]
""",
    """\
plugins:
- type: ${name}
- type: ${name}-scorer
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: ${name}-scorer
""",
)

_ADMITTER = PluginTemplate(
    "Admits or rejects a request before an endpoint is picked.",
    '''\
"""Rejects prompts that are too long. The client gets 429 and the sentence."""

from modelplane.epp.plugins import Parameters, SchedulingContext, plugin_type


class ${klass}Parameters(Parameters, frozen=True):
    tokens: int = 100_000


class ${klass}:
    def __init__(self, name: str, parameters: ${klass}Parameters) -> None:
        self.name = name
        self._tokens = parameters.tokens

    def admit(self, context: SchedulingContext, /) -> str:
        tokens = context.request.tokens
        return f"the prompt has {tokens} tokens; {self._tokens} are admitted" if tokens > self._tokens else ""


TYPES = (plugin_type("${name}", ${klass}, ${klass}Parameters),)
''',
    """\
def test_long_prompts_are_rejected():
    plugin = ${klass}("${name}", ${klass}Parameters(tokens=4))
    short, long = (context_of([endpoint()], Request("r", prompts=(prompt,))) for prompt in (b"x" * 8, b"x" * 80))
    assert (plugin.admit(short), plugin.admit(long)) == ("", "the prompt has 20 tokens; 4 are admitted")
""",
)

_PRE_REQUEST = PluginTemplate(
    "Runs after an endpoint is picked; adds headers to the request.",
    '''\
"""Names the zone of the picked endpoint in a header of the request."""

from modelplane.epp.plugins import Decision, Parameters, SchedulingContext, plugin_type


class ${klass}Parameters(Parameters, frozen=True):
    label: str = "topology.kubernetes.io/zone"
    header: str = "x-picked-zone"


class ${klass}:
    def __init__(self, name: str, parameters: ${klass}Parameters) -> None:
        self.name = name
        self._label = parameters.label
        self._header = parameters.header

    def pre_request(self, _context: SchedulingContext, decision: Decision, /) -> tuple[tuple[str, str], ...]:
        zone = decision.picked.labels.get(self._label, "")
        return ((self._header, zone),) if zone else ()


TYPES = (plugin_type("${name}", ${klass}, ${klass}Parameters),)
''',
    """\
def test_the_zone_is_named():
    plugin = ${klass}("${name}", ${klass}Parameters(label="zone"))
    picked = endpoint("a", labels={"zone": "b"})
    decision = Decision(Outcome.PICKED, ((picked,),))
    assert plugin.pre_request(context_of([picked]), decision) == (("x-picked-zone", "b"),)
""",
)

_RESPONSE = PluginTemplate(
    "Runs when a response is complete. This one scores by what it learned.",
    '''\
"""Prefers endpoints whose last response began soonest."""

from collections.abc import Sequence

from modelplane.epp.plugins import (
    Decision,
    Endpoint,
    EndpointResponse,
    NoParameters,
    Request,
    SchedulingContext,
    plugin_type,
)


class ${klass}:
    reads_bodies = False  # True: `served.usage` has token counts, and the proxy must send response bodies

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name
        self._ttft_s: dict[str, float] = {}

    def response_complete(self, _request: Request, _decision: Decision, served: EndpointResponse, /) -> None:
        if served.first_byte_s >= 0.0:
            self._ttft_s[served.endpoint.name] = served.first_byte_s - served.started_s

    def endpoints_changed(self, endpoints: Sequence[Endpoint], /) -> None:
        names = {endpoint.name for endpoint in endpoints}
        self._ttft_s = {name: ttft_s for name, ttft_s in self._ttft_s.items() if name in names}

    def score(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        return [1.0 / (1.0 + self._ttft_s.get(endpoint.name, 0.0)) for endpoint in endpoints]


TYPES = (plugin_type("${name}", ${klass}, NoParameters),)
''',
    """\
def test_the_faster_endpoint_is_preferred():
    plugin = ${klass}("${name}", NoParameters())
    slow, fast = endpoint("a"), endpoint("b")
    for each, ttft_s in ((slow, 3.0), (fast, 1.0)):
        decision = Decision(Outcome.PICKED, ((each,),))
        plugin.response_complete(Request("r"), decision, EndpointResponse(each, 200, 0.0, first_byte_s=ttft_s))
    assert plugin.score(context_of([slow, fast]), [slow, fast]) == [0.25, 0.5]
""",
)

DECISION_TEMPLATES: Final = {
    "filter": _FILTER,
    "scorer": _SCORER,
    "picker": _PICKER,
    "handler": _HANDLER,
    "producer": _PRODUCER,
    "admitter": _ADMITTER,
    "pre-request": _PRE_REQUEST,
    "response": _RESPONSE,
}
