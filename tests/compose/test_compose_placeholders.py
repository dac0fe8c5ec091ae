import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.models import Scheduling
from modelplane.compose.placeholders import (
    NAMES,
    PlaceholderValues,
    expand,
    is_label_key,
    is_label_value,
    template_fault,
    unknown_placeholder,
)

TOKENS = "{{ .Namespace }}, {{ .Name }}, {{ .Replica }}, {{ .Cluster }}, {{ .Pool }}, {{ .Priority }}"
VALUES = PlaceholderValues(
    namespace="chat", name="qwen", replica="qwen-x", cluster="east", pool="h200", priority="production"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("{{ .Namespace }}", "chat"),
        ("{{.Namespace}}-{{ .Name }}", "chat-qwen"),
        ("{{ .Replica }}.{{ .Cluster }}.{{ .Pool }}.{{ .Priority }}", "qwen-x.east.h200.production"),
        ("{ .Namespace }", "{ .Namespace }"),
        ("{", "{"),
        ("", ""),
    ],
)
def test_known_tokens_are_replaced_and_nothing_else(text, expected):
    assert unknown_placeholder(text) is None
    assert expand(text, VALUES) == expected


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("{{ .Secret }}", "{{ .Secret }}"),
        ("a-{{ .Name }}-{{ .name }}", "{{ .name }}"),
        ("{{  .Name }}", "{{  .Name }}"),
        ("{{ .Name", "{{ .Name"),
        ("{{ .Name | upper }}", "{{ .Name | upper }}"),
        ("{{{ .Name }}}", "{{{ .Name }}}"),
        ("{{`{{`}}", "{{`{{`}}"),
    ],
)
def test_whatever_else_looks_like_a_token_is_refused(text, token):
    assert unknown_placeholder(text) == token


def test_a_value_that_looks_like_a_token_is_not_read_again():
    values = PlaceholderValues("{{ .Cluster }}", "n", "r", "east", "p", "")
    assert expand("{{ .Namespace }}", values) == "{{ .Cluster }}"


@given(st.text(alphabet="{}. NamePol", max_size=40))
def test_an_accepted_text_has_no_braces_left_but_those_it_should_have(text):
    if unknown_placeholder(text) is None:
        rest = text
        for name in NAMES:
            for token in (f"{{{{ .{name} }}}}", f"{{{{.{name}}}}}", f"{{{{ .{name}}}}}", f"{{{{.{name} }}}}"):
                rest = rest.replace(token, "\0")
        assert "{{" not in rest


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", True), ("a", True), ("A-b_c.9", True), ("-a", False), ("a.", False), ("a" * 63, True), ("a" * 64, False),
     ("a b", False), ("ä", False)],
)  # fmt: skip
def test_label_values(value, expected):
    assert is_label_value(value) is expected


PREFIX = ".".join(["a" * 63] * 3 + ["a" * 61])


@pytest.mark.parametrize(
    ("key", "expected"),
    [("a", True), ("example.com/a", True), ("", False), ("/a", False), ("example.com/", False), ("Ex.com/a", False),
     ("a" * 63, True), ("a" * 64, False), (f"{'a' * 254}/a", False),
     (f"{PREFIX}/a", True), (f"{PREFIX}a/a", False)],
)  # fmt: skip
def test_label_keys(key, expected):
    assert is_label_key(key) is expected


@pytest.mark.parametrize(
    ("scheduling", "fault"),
    [
        (Scheduling(default_labels={"team": "{{ .Namespace }}"}), None),
        (
            Scheduling(default_annotations={"a": "{{ .Team }}"}),
            "spec.scheduling.defaultAnnotations[a]: '{{ .Team }}' is not a placeholder; known are " + TOKENS,
        ),
        (Scheduling(default_labels={"a b": "c"}), "spec.scheduling.defaultLabels: 'a b' is no label key"),
    ],
)
def test_a_clusters_templates_are_checked_before_any_pod(scheduling, fault):
    assert template_fault(scheduling) == fault
