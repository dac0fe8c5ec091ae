import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.models import Scheduling
from modelplane.api.queues import is_per_namespace, queue_name, queue_scheduler, queue_template

PER_TEAM = "{{ .Namespace }}"


@pytest.mark.parametrize(
    ("scheduling", "scheduler", "template"),
    [
        ({}, "None", None),
        ({"type": "KAI"}, "KAI", None),
        ({"type": "Kueue", "queue": "team-{{ .Namespace }}"}, "Kueue", "team-{{ .Namespace }}"),
        ({"type": "KAI", "defaultLabels": {"kai.scheduler/queue": PER_TEAM}}, "KAI", PER_TEAM),
        ({"type": "KAI", "queue": "a", "defaultLabels": {"kai.scheduler/queue": PER_TEAM}}, "KAI", "a"),
        ({"schedulerName": "kai-scheduler", "defaultLabels": {"runai/queue": PER_TEAM}}, "KAI", PER_TEAM),
        ({"defaultAnnotations": {"scheduling.volcano.sh/queue-name": PER_TEAM}}, "Volcano", PER_TEAM),
        ({"type": "Kueue", "defaultLabels": {"kai.scheduler/queue": PER_TEAM}}, "Kueue", None),
    ],
)
def test_a_queue_is_stated_or_passed_through_to_the_pods(scheduling, scheduler, template):
    found = msgspec.convert(scheduling, Scheduling)
    assert (queue_scheduler(found), queue_template(found)) == (scheduler, template)


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("serving", "serving"),
        (PER_TEAM, "app"),
        ("{{.Namespace}}-q", "app-q"),
        ("{{ .Name }}", None),
        ("{{ .Namespace }}-{{ .Pool }}", None),
    ],
)
def test_the_queue_of_a_namespace(template, name):
    assert queue_name(template, "app") == name
    assert is_per_namespace(template) is ("Namespace" in template)


@given(st.text())
def test_a_namespace_is_not_read_again(namespace):
    assert queue_name(PER_TEAM, namespace) == namespace
