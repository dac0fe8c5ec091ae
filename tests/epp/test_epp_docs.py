"""The page about the picker names every plugin type, and what it shows works."""

import re
from pathlib import Path

from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.config.config import load
from modelplane.epp.replay.snapshot import decode
from modelplane.epp.scheduling.scheduler import Scheduler

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "picker.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(language, word):
    return [text for found, text in FENCE.findall(PAGE) if found == language and word in text]


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


def test_the_plugin_that_is_shown_works():
    (text,) = fences("python", "plugin_type")
    names = {}
    exec(compile(text, "picker.md", "exec"), names)  # noqa: S102  our own page
    known = builtin_registry().extended(names["TYPES"])
    head = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
    assert load(head + "plugins: [{type: gold-first}]", registry=known).profiles[0].scorers == (("gold-first", 1.0),)
