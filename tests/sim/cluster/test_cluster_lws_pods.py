from modelplane.sim.cluster.lws_pods import admitted, group_key, group_size, is_leader, is_worker

PREFIX = "leaderworkerset.sigs.k8s.io"


def pod(name, labels, **spec):
    metadata = {"name": name, "namespace": "team", "labels": labels, "annotations": {f"{PREFIX}/size": "2"}}
    return {"metadata": metadata, "spec": {"subdomain": "gang", **spec}}


def test_pods_of_no_group_pass_as_they_are():
    plain = pod("solo-0", {"app": "solo"}, containers=[{"name": "c"}])
    assert admitted(plain) is plain
    assert (group_size({"metadata": {"name": "p"}}), is_worker(plain), is_leader(plain)) == (1, False, False)


def test_variables_come_first_and_win():
    given = [{"name": "MINE", "value": "$(LWS_GROUP_SIZE)"}, {"name": "LWS_WORKER_INDEX", "value": "9"}]
    containers = [{"name": "c", "env": given}]
    labels = {f"{PREFIX}/name": "gang", f"{PREFIX}/group-index": "3"}
    made = admitted(pod("gang-3-1", labels, containers=containers, initContainers=[{"name": "i"}]))
    ours = [
        {"name": "LWS_LEADER_ADDRESS", "value": "gang-3.gang.team"},
        {"name": "LWS_GROUP_SIZE", "value": "2"},
        {"name": "LWS_WORKER_INDEX", "value": "1"},
    ]
    assert made["spec"]["containers"] == [{"name": "c", "env": [*ours, given[0]]}]
    assert made["spec"]["initContainers"] == [{"name": "i", "env": ours}]
    assert is_worker(made)
    assert group_size(made) == 2


def test_a_leader_names_its_group():
    made = admitted(pod("gang-3", {f"{PREFIX}/name": "gang", f"{PREFIX}/worker-index": "0"}, containers=[]))
    labels = made["metadata"]["labels"]
    assert (labels[f"{PREFIX}/group-index"], labels[f"{PREFIX}/group-key"]) == ("3", group_key(made))
    assert is_leader(made)
