from pathlib import Path

import pytest
import yaml

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose import inference_cluster
from modelplane.compose.contract import ComposeRequest
from modelplane.views.workload_rights import allows, workload_role
from tests.compose.conftest import SCHEDULERS, make_cluster

COMPOSE = Path(__file__).resolve().parents[1] / "compose"
GOLDEN = sorted([*COMPOSE.glob("golden*/*.yaml"), *COMPOSE.glob("golden_cluster_*.yaml")])
RULES = next(item for item in workload_role() if item["kind"] == "ClusterRole")["rules"]
WRITE = ("create", "delete", "get", "list", "patch", "update", "watch")


def resource(kind):
    lower = kind.lower()
    return (
        f"{lower[:-1]}ies"
        if lower.endswith(("cy", "gy", "xy"))
        else f"{lower}es"
        if lower.endswith("s")
        else f"{lower}s"
    )


def rendered():
    """The objects of every golden file that are for a workload cluster."""
    for path in GOLDEN:
        if path.parent.name != "golden-clouds":
            yield from (item for item in yaml.load_all(path.read_text(), yaml.CSafeLoader) if item)


def test_everything_that_is_rendered_may_be_written():
    kinds = {(item["apiVersion"].rpartition("/")[0], resource(item["kind"])) for item in rendered()}
    assert len(kinds) > 15
    refused = [(group, name) for group, name in kinds if not all(allows(RULES, group, name, verb) for verb in WRITE)]
    assert refused == []


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_everything_that_is_watched_may_be_read(scheduler):
    item = make_cluster("native", scheduler)
    item["spec"]["cluster"]["existing"]["components"] = "Provided"
    wanted = inference_cluster.compose(ComposeRequest(decode(InferenceCluster, item))).requirements.values()
    kinds = {(each.api_version.rpartition("/")[0], resource(each.kind)) for each in wanted if each.cluster}
    assert kinds
    assert [kind for kind in kinds if not all(allows(RULES, *kind, verb) for verb in ("get", "list", "watch"))] == []


def test_no_role_is_written_that_grants_more_than_its_writer_may():
    granted = [
        (group, name, verb)
        for item in rendered()
        if item["kind"] == "Role"
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
        for verb in rule["verbs"]
    ]
    assert granted
    assert [each for each in granted if not allows(RULES, *each)] == []


def test_it_is_not_the_administrator():
    texts = {text for rule in RULES for text in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])}
    assert not texts & {"*", "escalate", "bind", "impersonate", "clusterroles", "clusterrolebindings"}
