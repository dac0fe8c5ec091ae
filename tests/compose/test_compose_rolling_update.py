"""A change reaches the replicas of a deployment one at a time, and reaches all of them."""

import copy
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.codec import decode, encode
from modelplane.api.labels import REVISION, TRACK
from modelplane.api.models import ModelDeployment, ModelReplica
from modelplane.compose import model_deployment
from modelplane.compose.contract import ComposeRequest, Local, Observed
from modelplane.compose.rolling_update import RolloutRules, roll

READ = partial(decode, ModelReplica)
OLD, NEW, NEWER = "engine:1", "engine:2", "engine:3"
SERVING = {"WorkloadReady": "True", "RouteReady": "True"}
DOWN = {"WorkloadReady": "False", "RouteReady": "True"}


def replica(index: int, image: str, *, generation: int = 0, served: int | None = None, **conditions: str) -> dict:
    template = {"spec": {"containers": [{"name": "engine", "image": image, "args": ["m"]}]}}
    item = {
        "metadata": {"name": f"r{index}", "namespace": "n", "generation": generation},
        "spec": {
            "clusterName": "east",
            "index": index,
            "engines": [{"name": "m", "members": [{"role": "Standalone", "nodePoolName": "p", "template": template}]}],
        },
        "status": {
            "conditions": [
                {"type": kind, "status": status, "reason": "X", "observedGeneration": generation}
                for kind, status in conditions.items()
            ],
            **({"servedGeneration": served} if served else {}),
        },
    }
    return encode(decode(ModelReplica, item))


def images(seen: list[dict | None], image: str = NEW) -> tuple[list[str], str]:
    wanted = [decode(ModelReplica, replica(index, image)) for index in range(len(seen))]
    found = roll(wanted, {item["metadata"]["name"]: item for item in seen if item is not None}, READ)
    containers = [item.spec.engines[0].members[0].template.spec.containers[0] for item in found.replicas]
    return [container.image for container in containers], found.message


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(
            [replica(at, OLD, generation=1, served=1, **SERVING) for at in range(3)],
            ([NEW, OLD, OLD], "1 of 3 replicas updated"),
            id="of those that serve one is changed",
        ),
        pytest.param(
            [
                replica(0, NEW, generation=2, served=1, **DOWN),
                replica(1, OLD, generation=1, served=1, **SERVING),
                replica(2, OLD, generation=1, served=1, **SERVING),
            ],
            ([NEW, OLD, OLD], "1 of 3 replicas updated"),
            id="until it serves, the others wait",
        ),
        pytest.param(
            [
                replica(0, NEW, generation=2, served=1, **SERVING),
                replica(1, OLD, generation=1, served=1, **SERVING),
            ],
            ([NEW, OLD], "1 of 2 replicas updated"),
            id="that it still answers from before the change is not enough",
        ),
        pytest.param(
            [
                replica(0, NEW, generation=2, served=2, **SERVING),
                replica(1, OLD, generation=1, served=1, **SERVING),
                replica(2, OLD, generation=1, served=1, **SERVING),
            ],
            ([NEW, NEW, OLD], "2 of 3 replicas updated"),
            id="then the next one is changed",
        ),
        pytest.param(
            [
                replica(0, OLD, generation=1, served=1, **SERVING),
                replica(1, OLD, generation=1, **DOWN),
                replica(2, OLD, generation=1, **DOWN),
            ],
            ([NEW, NEW, NEW], ""),
            id="those that do not serve are changed at once",
        ),
        pytest.param(
            [replica(0, OLD, generation=1, served=1, **SERVING), None, replica(2, NEW, generation=1, **DOWN)],
            ([NEW, NEW, NEW], ""),
            id="new ones start with the new version and hold nothing up",
        ),
        pytest.param(
            [
                replica(0, NEW, generation=2, served=1, Accepted="False", **SERVING),
                replica(1, OLD, generation=1, served=1, **SERVING),
            ],
            ([NEW, NEW], ""),
            id="one that refuses the change holds nothing up",
        ),
    ],
)
def test_which_replicas_change(seen, expected):
    assert images(seen) == expected


def of_revision(revision: str, item: dict) -> dict:
    return {**item, "metadata": {**item["metadata"], "labels": {"modelplane.ai/revision": revision}}}


OUTDATED = [replica(at, OLD, generation=1, served=1, **SERVING) for at in range(2)]
IDLE = replica(2, OLD, generation=1, **DOWN)
MOMENT = 1_767_225_600.0


@pytest.mark.parametrize(
    ("seen", "rules", "expected"),
    [
        pytest.param([*OUTDATED, IDLE], RolloutRules(paused=True), ([OLD, OLD, OLD], 0, 0), id="paused"),
        pytest.param(
            [*OUTDATED, None], RolloutRules(paused=True), ([OLD, OLD, NEW], 1, 0), id="paused, and one is new"
        ),
        pytest.param([*OUTDATED, IDLE], RolloutRules(surge=True), ([OLD, OLD, NEW], 1, 0), id="surge"),
        pytest.param([*OUTDATED], RolloutRules(), ([NEW, OLD], 1, 0), id="in place"),
        pytest.param([*OUTDATED], RolloutRules(canary=1), ([NEW, OLD], 1, 0), id="a canary"),
        pytest.param(
            [*OUTDATED, replica(2, NEW, generation=1, served=1, **SERVING)],
            RolloutRules(canary=1),
            ([OLD, OLD, NEW], 1, 1),
            id="a canary is enough",
        ),
        pytest.param(
            [of_revision("stable", OUTDATED[0]), of_revision("abandoned", OUTDATED[1])],
            RolloutRules(canary=1, stable="stable"),
            ([OLD, NEW], 1, 0),
            id="an abandoned revision goes first",
        ),
    ],
)
def test_the_rules_of_a_rollout_hold_replicas_back(seen, rules, expected):
    wanted = [decode(ModelReplica, replica(index, NEW)) for index in range(len(seen))]
    found = roll(wanted, {item["metadata"]["name"]: item for item in seen if item is not None}, READ, rules)
    assert ([_image(encode(item)) for item in found.replicas], found.updated, found.ready) == expected


def serving_since(item: dict, moment: str) -> dict:
    found = copy.deepcopy(item)
    for condition in found["status"]["conditions"]:
        condition["lastTransitionTime"] = moment
    return found


@pytest.mark.parametrize(("age_s", "expected"), [(29, [NEW, OLD]), (30, [NEW, NEW])])
def test_the_next_replica_waits_until_the_one_before_has_served_for_long_enough(age_s, expected):
    updated = serving_since(replica(0, NEW, generation=2, served=2, **SERVING), "2026-01-01T00:00:00Z")
    old = serving_since(replica(1, OLD, generation=1, served=1, **SERVING), "2025-12-01T00:00:00Z")
    wanted = [decode(ModelReplica, replica(index, NEW)) for index in range(2)]
    rules = RolloutRules(min_ready_s=30.0, now=MOMENT + age_s)
    found = roll(wanted, {"r0": updated, "r1": old}, READ, rules)
    assert [_image(encode(item)) for item in found.replicas] == expected
    assert found.ready == (age_s >= 30)


@pytest.mark.parametrize(
    "rules",
    [RolloutRules(now=MOMENT), RolloutRules(min_ready_s=MOMENT)],
    ids=["the deployment says no time", "the time is unknown"],
)
def test_a_replica_that_has_just_begun_to_serve_is_ready(rules):
    updated = serving_since(replica(0, NEW, generation=2, served=2, **SERVING), "2026-01-01T00:00:00Z")
    assert roll([decode(ModelReplica, replica(0, NEW))], {"r0": updated}, READ, rules).ready == 1


def test_a_replica_that_is_held_back_keeps_the_label_of_its_revision():
    def labelled(item: dict, revision: str | None) -> dict:
        labels = {"app": "chat", **({REVISION: revision} if revision else {})}
        labels |= {TRACK: "canary"} if revision == "new" else {}
        return {**item, "metadata": {**item["metadata"], "labels": labels}}

    seen = {"r0": labelled(OUTDATED[0], "old"), "r1": labelled(OUTDATED[1], None)}
    wanted = [decode(ModelReplica, labelled(replica(index, NEW), "new")) for index in range(2)]
    found = roll(wanted, seen, READ, RolloutRules(paused=True))
    assert [item.metadata.labels for item in found.replicas] == [{"app": "chat", REVISION: "old"}, {"app": "chat"}]


def test_a_version_that_does_not_start_is_replaced_at_once_and_goes_no_further():
    broken = [replica(0, NEW, generation=2, served=1, **DOWN), replica(1, OLD, generation=1, served=1, **SERVING)]
    assert images(broken, NEWER) == ([NEWER, OLD], "1 of 2 replicas updated")


def test_a_change_that_is_taken_back_leaves_those_that_never_saw_it_alone():
    broken = [replica(0, NEW, generation=2, served=1, **DOWN), replica(1, OLD, generation=1, served=1, **SERVING)]
    assert images(broken, OLD) == ([OLD, OLD], "")


def test_what_is_no_matter_of_the_pods_reaches_every_replica():
    seen = {item["metadata"]["name"]: item for item in (replica(at, OLD, **SERVING) for at in range(3))}
    wanted = [decode(ModelReplica, {**item, "spec": {**item["spec"], "protected": True}})
              for item in (replica(at, NEW) for at in range(3))]  # fmt: skip
    assert [item.spec.protected for item in roll(wanted, seen, READ).replicas] == [
        True,
        True,
        True,
    ]


@pytest.mark.slow
@given(st.lists(st.booleans(), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_every_change_arrives_and_never_stops_two_that_serve(serving, random):
    """Replicas restart in any order and at any speed; in each pass at most one that served is down for the change."""
    fleet = [replica(at, OLD, generation=1, served=1 if up else None, **(SERVING if up else DOWN))
             for at, up in enumerate(serving)]  # fmt: skip
    for _ in range(8 * len(fleet)):
        targets, _message = images(fleet)
        for at, image in enumerate(targets):
            metadata, status = fleet[at]["metadata"], fleet[at]["status"]
            if image != _image(fleet[at]):
                generation, served = metadata["generation"] + 1, status.get("servedGeneration")
                fleet[at] = replica(at, image, generation=generation, served=served, **DOWN)
            elif image == NEW and random.random() < 0.5:
                fleet[at] = replica(
                    at, NEW, generation=metadata["generation"], served=metadata["generation"], **SERVING
                )
        changing = [
            item for item in fleet if item["status"].get("servedGeneration", 9) < item["metadata"]["generation"]
        ]
        assert len(changing) <= 1
        if all(_image(item) == NEW for item in fleet):
            return
    pytest.fail(f"not done: {[_image(item) for item in fleet]}")


def _image(item: dict) -> str:
    return item["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"]


def test_a_deployment_says_how_far_a_change_is():
    """From the edit of a deployment to its replicas: one is changed, the endpoints stay, the condition tells."""
    before, cluster = _deployment(OLD), _cluster()
    placed = model_deployment.compose(ComposeRequest(before, required=_required([], cluster)))
    observed = {key: Observed(Local(_answering(item.target.manifest)), ready=True)
                for key, item in placed.desired.items()}  # fmt: skip
    replicas = [seen.manifest for seen in observed.values()]
    result = model_deployment.compose(
        ComposeRequest(_deployment(NEW), observed=observed, required=_required(replicas, cluster))
    )
    targets = {key: item.target.manifest for key, item in result.desired.items()}
    assert [_image(item) for key, item in targets.items() if key.startswith("replica-")] == [NEW, OLD, OLD]
    assert sum(key.startswith("endpoint-") for key in targets) == 3
    assert result.conditions[1].message == "3 of 3 replicas serve; 1 of 3 replicas updated"


def test_the_next_follows_when_clients_reach_the_one_before():
    """A replica whose pods serve the change has no endpoint at first; the next would be taken from clients too."""
    before, cluster = _deployment(OLD), _cluster()

    def passed(observed):
        replicas = [seen.manifest for key, seen in observed.items() if key.startswith("replica-")]
        request = ComposeRequest(_deployment(NEW), observed=observed, required=_required(replicas, cluster))
        desired = model_deployment.compose(request).desired
        return {key: item.target.manifest for key, item in desired.items()}

    def updated(targets):
        return sum(_image(item) == NEW for key, item in targets.items() if key.startswith("replica-"))

    placed = model_deployment.compose(ComposeRequest(before, required=_required([], cluster))).desired
    served = {key: Observed(Local(_answering(item.target.manifest)), ready=True) for key, item in placed.items()}
    first = passed(served)
    shown = {key: Observed(Local(_answering(item)), ready=key.startswith("replica-")) for key, item in first.items()}
    assert (updated(first), updated(passed(shown))) == (1, 1)
    reached = {key: Observed(seen.target, ready=True) for key, seen in shown.items()}
    assert updated(passed(reached)) == 2


def _required(replicas: list[dict], cluster: dict) -> dict:
    return {"clusters": (cluster,), "replicas": tuple(replicas), "caches": ()}


def _answering(item: dict) -> dict:
    found = copy.deepcopy(item)
    conditions = [{"type": kind, "status": "True", "reason": "X"} for kind in ("Ready", *SERVING)]
    found["metadata"] |= {"generation": 1, "uid": found["metadata"]["name"]}
    found["status"] = {"address": "http://192.0.2.1", "servedGeneration": 1, "conditions": conditions}
    return found


def _deployment(image: str) -> ModelDeployment:
    container = {"name": "engine", "image": image, "args": ["m"]}
    workers = {"engine": "vLLM", "template": {"spec": {"containers": [container]}}}
    spec = {"replicas": 3, "nodeSelector": {"devices": [{"name": "gpu", "count": 1}]}, "workers": workers}
    return decode(ModelDeployment, {"metadata": {"name": "d", "namespace": "n", "uid": "u"}, "spec": spec})


def _cluster() -> dict:
    device = {"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "count": 8}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "east"},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "k"}}},
            "nodePools": [{"name": "p", "className": "c", "nodeCount": 2}],
        },
        "status": {
            "gateway": {"address": "192.0.2.1"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "X"}],
            "gpuPools": [{"name": "p", "className": "c", "nodes": 2, "devices": [device]}],
        },
    }


@pytest.mark.parametrize(
    ("seen_share", "image", "expected"),
    [
        pytest.param(None, OLD, None, id="an older release's keeps none"),
        pytest.param({"cpu": "1"}, OLD, {"cpu": "1"}, id="a class that says something else changes nothing"),
        pytest.param(None, NEW, {"cpu": "8"}, id="another change brings the share"),
    ],
)
def test_a_share_of_the_node_is_no_change_of_its_own(seen_share, image, expected):
    seen = replica(0, OLD, generation=1, served=1, **SERVING)
    if seen_share:
        seen["spec"]["engines"][0]["members"][0]["nodeShare"] = seen_share
    wanted = replica(0, image)
    wanted["spec"]["engines"][0]["members"][0]["nodeShare"] = {"cpu": "8"}
    (found,) = roll([decode(ModelReplica, wanted)], {"r0": seen}, READ).replicas
    share = found.spec.engines[0].members[0].node_share
    assert (share and encode(share)) == expected


@pytest.mark.parametrize(("image", "expected"), [(OLD, ()), (NEW, ("gpu", "nic"))])
def test_devices_on_one_root_are_no_change_of_their_own(image, expected):
    seen = replica(0, OLD, generation=1, served=1, **SERVING)
    wanted = replica(0, image)
    wanted["spec"]["engines"][0]["members"][0]["rootRequests"] = ["gpu", "nic"]
    (found,) = roll([decode(ModelReplica, wanted)], {"r0": seen}, READ).replicas
    assert found.spec.engines[0].members[0].root_requests == expected
