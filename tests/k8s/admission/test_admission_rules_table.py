"""Our own admission on the table that a real API server agrees with."""

from pathlib import Path

import pytest

from modelplane.api.definitions import definitions
from modelplane.k8s.admission.admit import AdmissionDenied, Admitted, admit
from tests.support.rule_cases import rule_cases

CASES = list(rule_cases((Path(__file__).resolve().parents[2] / "api" / "rules.yaml").read_text()))


def judge(case):
    definition = definitions()[case.manifest["apiVersion"], case.manifest["kind"]]
    before = None
    if case.before is not None:
        stored = admit(case.before, definition)
        assert isinstance(stored, Admitted)
        before = stored.value
    return admit(case.manifest, definition, old=before)


@pytest.mark.parametrize("case", [case for case in CASES if not case.says], ids=lambda case: case.name)
def test_is_accepted(case):
    verdict = judge(case)
    assert isinstance(verdict, Admitted), verdict


@pytest.mark.parametrize("case", [case for case in CASES if case.says], ids=lambda case: case.name)
def test_is_refused_with_our_words(case):
    verdict = judge(case)
    assert isinstance(verdict, AdmissionDenied)
    assert any(case.says in str(problem) for problem in verdict.problems), verdict


def test_every_rule_of_the_api_is_broken_by_some_case():
    """A rule that nothing breaks was never seen to refuse anything."""
    said = " ".join(str(problem) for case in CASES if case.says for problem in judge(case).problems)
    messages = {
        rule["message"]
        for definition in definitions().values()
        for schema in schemas(definition.schema)
        for rule in schema.get("x-kubernetes-validations", ())
    }
    assert sorted(message for message in messages if message not in said) == []


def schemas(schema):
    yield schema
    for child in schema.get("properties", {}).values():
        yield from schemas(child)
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from schemas(schema[keyword])
