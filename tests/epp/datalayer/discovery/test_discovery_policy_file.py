"""Priorities and rewrites from a file: the ecosystem's objects, and what is wrong with a file that is none."""

import asyncio

import pytest

from modelplane.api.errors import InputError
from modelplane.epp.datalayer.discovery import PolicyFile, Rewrite
from modelplane.epp.datalayer.discovery.policy_file import read_policies
from tests.support.waiting import until

FILE = """\
apiVersion: llm-d.ai/v1alpha2
kind: InferenceObjective
metadata: {name: batch}
spec: {priority: -1}
---
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceObjective
metadata: {name: plain}
---
apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: second}
spec: {rules: [{targets: [{modelRewrite: other}]}]}
---
apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: first}
spec:
  poolRef: {name: whichever}
  rules:
  - matches: [{model: {type: Exact, value: llama}}]
    targets: [{modelRewrite: new, weight: 1}, {modelRewrite: old, weight: 3}]
  - targets: [{modelRewrite: too-late}]
"""


def test_the_file_has_the_ecosystems_objects(tmp_path):
    async def story():
        path = tmp_path / "policies.yaml"
        path.write_text(FILE)
        policies = PolicyFile(path, every_s=0.01)
        await policies.start()
        found = dict(policies.priorities), [policies.rewrite("llama", chance) for chance in (0.2, 0.3)]
        generic = policies.rewrite("another", 0.0)
        path.write_text("kind: Pod")
        await until(lambda: policies.problem)
        kept = dict(policies.priorities)
        path.write_text(FILE.replace("priority: -1", "priority: 7"))
        await until(lambda: policies.priorities["batch"] == 7)
        await policies.stop()
        return found, generic, kept

    found, generic, kept = asyncio.run(story())
    assert found == (
        {"batch": -1, "plain": 0},
        [Rewrite("first", "new", exact=True), Rewrite("first", "old", exact=True)],
    )
    assert (generic, kept) == (Rewrite("second", "other"), {"batch": -1, "plain": 0})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Pod\napiVersion: v1\n", "p.yaml:1: apiVersion: v1; it must be of inference.networking.x-k8s.io or"),
        ("\nkind: Pool\napiVersion: llm-d.ai/v1\n", "p.yaml:2: kind: Pool; it must be InferenceObjective or"),
        ("kind: InferenceObjective\napiVersion: llm-d.ai/v1\n", "p.yaml:1: Object missing required field `metadata`"),
        ("a: [", "p.yaml"),
        ("# " + "x" * 2**20, "p.yaml: more than 1048576 bytes"),
    ],
)
def test_problems_are_reported_with_their_position(text, says):
    with pytest.raises(InputError) as wrong:
        read_policies(text.encode(), "p.yaml")
    assert says in str(wrong.value)


def test_a_missing_file_is_an_error_at_start(tmp_path):
    with pytest.raises(InputError, match=r"none\.yaml: No such file"):
        asyncio.run(PolicyFile(tmp_path / "none.yaml").start())
