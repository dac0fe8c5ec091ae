"""The tree of `modelplane trace`, in every form."""

import json

import pytest
import yaml

from modelplane.cli import main
from modelplane.cli.trace import tree_text
from modelplane.views.object_tree import ObjectTree

THEN = "2026-01-01T00:00:00Z"
ENDPOINT = ObjectTree(kind="ModelEndpoint", namespace="team", name="chat-a", state="Ready", since=THEN)
REPLICA = ObjectTree(
    kind="ModelReplica",
    namespace="team",
    name="chat-a",
    state="NotReady",
    since=THEN,
    why="ImagePullFailed: no\n such image",
    children=(ENDPOINT,),
)
CLUSTER = ObjectTree(kind="InferenceCluster", name="east", state="Ready", since=THEN, children=(REPLICA,))


def test_one_namespace_is_not_repeated_in_each_row():
    assert tree_text(REPLICA, "text") == (
        "OBJECT                   HEALTH    SINCE                 WHY\n"
        f"ModelReplica/chat-a      NotReady  {THEN}  ImagePullFailed: no\\n such image\n"
        f"└─ ModelEndpoint/chat-a  Ready     {THEN}\n"
    )


def test_what_is_on_a_cluster_has_its_namespaces():
    assert tree_text(CLUSTER, "text") == (
        "OBJECT                      NAMESPACE  HEALTH    SINCE                 WHY\n"
        f"InferenceCluster/east                  Ready     {THEN}\n"
        f"└─ ModelReplica/chat-a      team       NotReady  {THEN}  ImagePullFailed: no\\n such image\n"
        f"   └─ ModelEndpoint/chat-a  team       Ready     {THEN}\n"
    )


def test_data_is_the_same_in_json_and_yaml():
    found = json.loads(tree_text(CLUSTER, "json"))
    assert found == yaml.safe_load(tree_text(CLUSTER, "yaml"))
    assert found["children"][0]["children"] == [
        {"kind": "ModelEndpoint", "namespace": "team", "name": "chat-a", "state": "Ready", "since": THEN}
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["icl/h200"], "'icl' is not a kind of this command; did you mean ic?"),
        (["md"], "'md' is not KIND NAME or KIND/NAME, such as deployment/NAME"),
    ],
)
def test_other_kinds_are_refused_with_what_is_right(words, says, tmp_path, capsys):
    assert main(["trace", *words, "--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"modelplane trace: {says}\n"
