"""The pages about the picker: one names every plugin type, and what they show works."""

import re
from pathlib import Path

from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.config.config import load
from modelplane.epp.replay.snapshot import decode
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.server import assemble
from modelplane.testing.picking import chances

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "picker.md").read_text()
FOR_AUTHORS = (DOCS / "picker-plugins.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(language, word, page=PAGE):
    return [text for found, text in FENCE.findall(page) if found == language and word in text]


def test_every_plugin_type_is_documented():
    assert [name for name in builtin_registry() if f"`{name}`" not in PAGE] == []


def test_configurations_that_are_shown_load_without_a_warning():
    shown = fences("yaml", "EndpointPickerConfig")
    assert len(shown) == 2
    for text in shown:
        config = load(text)
        assert config.warnings == ()
        Scheduler(config.build())


def test_the_state_that_is_shown_is_one():
    (text,) = fences("yaml", "PickerState")
    assert len(decode(text).endpoints) == len(decode(text).sent) == 1


HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
GUARDED = (
    HEAD
    + """featureGates: [flowControl]
plugins: [{type: not-in-maintenance}, {type: by-waiting}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: not-in-maintenance}]}]
flowControl: {saturationDetector: {pluginRef: by-waiting}}
"""
)


def with_shown(*names):
    """The built-in plugin types, and those that blocks of the page for authors define."""
    found = []
    for name in names:
        (text,) = fences("python", f'plugin_type("{name}"', FOR_AUTHORS)
        defined = {}
        exec(compile(text, "picker-plugins.md", "exec"), defined)  # noqa: S102  our own page
        found.extend(defined["TYPES"])
    return builtin_registry().extended(found)


def test_the_scorer_that_is_shown_works():
    config = load(HEAD + "plugins: [{type: gold-first}]", registry=with_shown("gold-first"))
    assert config.profiles[0].scorers == (("gold-first", 1.0),)


def test_the_filter_and_the_detector_that_are_shown_work():
    scheduler, flow = assemble(load(GUARDED, registry=with_shown("not-in-maintenance", "by-waiting")))
    away = Endpoint("ns/a", "10.0.0.1:80", labels={"maintenance": "true"}, metrics=EndpointMetrics(waiting=4))
    ready = Endpoint("ns/b", "10.0.0.2:80", metrics=EndpointMetrics(waiting=8))
    decision = scheduler.schedule(Request("r"), (away, ready), 0.0, chances())
    assert (decision.destinations, flow.gauge.read((away, ready), 0.0)) == ("10.0.0.2:80", 0.75)
    refused = scheduler.schedule(Request("r"), (away,), 0.0, chances())
    assert (refused.outcome, refused.why) == (
        Outcome.SATURATED,
        "profile default admits no endpoint: not-in-maintenance: ns/a is under maintenance",
    )
