"""What rendering reads of a replica."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster, ModelReplica
from modelplane.compose.context import Context, head_member
from modelplane.compose.routes import http_route
from tests.compose.conftest import make_cluster


def replica(*roles, labels=None, **spec):
    members = [{"role": role, "nodePoolName": "gpus", "template": {"spec": {"containers": []}}} for role in roles]
    engines = [{"name": "main", "members": members}]
    metadata = {"name": "chat-east-0", "namespace": "team", "labels": labels or {}}
    return decode(ModelReplica, {"metadata": metadata, "spec": {"clusterName": "east", "engines": engines, **spec}})


@pytest.mark.parametrize(
    ("found", "name"),
    [
        pytest.param(replica("Standalone", deployment={"name": "chat"}), "chat", id="its owner"),
        pytest.param(replica("Standalone", labels={"modelplane.ai/deployment": "code"}), "code", id="its label"),
        pytest.param(replica("Standalone"), "chat-east-0", id="neither: itself"),
    ],
)
def test_the_deployment_of_a_replica(found, name):
    assert Context(found, decode(InferenceCluster, make_cluster())).deployment == name


def test_requests_may_name_a_replica_in_a_list_unless_envoy_is_embedded():
    given = replica("Standalone"), decode(InferenceCluster, make_cluster())
    alone = {"type": "Exact", "name": "modelplane-replica", "value": "team/chat-east-0"}
    listed = {**alone, "type": "RegularExpression", "value": "(.*,)?team/chat-east-0(,.*)?"}
    made = [http_route(each, ()).manifest for each in (Context(*given), Context(*given, is_listed=False))]
    matches = [route["spec"]["rules"][0]["matches"] for route in made]
    assert [[match["headers"] for match in each] for each in matches] == [[[alone], [listed]], [[alone]]]


@pytest.mark.parametrize(
    ("roles", "head"), [(("Leader", "Worker"), "Leader"), (("Worker", "Leader"), "Leader"), (("Worker",), "Worker")]
)
def test_the_member_that_answers_is_no_worker_where_there_is_another(roles, head):
    assert head_member(replica(*roles).spec.engines[0]).role == head
