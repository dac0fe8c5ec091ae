"""PodCliqueSets start, serve, break and roll out as Grove does it, and KAI places each replica whole."""

from modelplane.api.objects import labels_of, name_of, text_at, uid_of
from modelplane.reconcile.store import ref_of
from modelplane.testing.cluster import claim_template, gpu_pool, run_cluster
from tests.compose.conftest import make_scene

CLAIMS = claim_template(gpus=4)
KAI = {"schedulerName": "kai-scheduler"}
QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "team"},
    "spec": {"resources": {"gpu": {"quota": -1, "limit": -1}}},
}


def pod_clique_set(replicas=1, workers=1, image="vllm/vllm-openai:v1", **pod):
    names = ["leader", *(f"w{rank}" for rank in range(1, workers + 1))]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "gang", "namespace": "team"},
        "spec": {"replicas": replicas, "template": {"cliques": [clique(name, image, pod) for name in names]}},
    }


def clique(name, image, pod):
    claims = [{"name": "devices", "resourceClaimTemplateName": name_of(CLAIMS)}]
    container = {"name": "engine", "image": image, "args": ["qwen"], "resources": {"claims": [{"name": "devices"}]}}
    tolerations = [{"operator": "Exists"}]
    spec = {"containers": [container], "resourceClaims": claims, "tolerations": tolerations, **pod}
    role = "leader" if name == "leader" else "worker"
    labels = {"modelplane.ai/role": role, "kai.scheduler/queue": "team"}
    return {
        "name": name,
        "labels": labels,
        "spec": {"roleName": name, "replicas": 1, "minAvailable": 1, "podSpec": spec},
    }


def counts(lab):
    status = lab.get(pod_clique_set())["status"]
    return tuple(status[field] for field in ("replicas", "availableReplicas", "updatedReplicas"))


def hosts(lab):
    return sorted(text_at(pod, "spec", "hostname") for pod in lab.pods())


def test_replicas_come_up_and_only_leaders_serve():
    async def main(lab):
        lab.apply(CLAIMS, pod_clique_set(replicas=2, workers=1))
        await lab.settle()
        services = [name_of(item) for item in lab.store.list("", "Service")]
        return hosts(lab), counts(lab), len(lab.engines.running), services

    found, counted, engines, services = run_cluster(main, pools=[gpu_pool(nodes=2)])
    assert found == ["gang-0-leader-0", "gang-0-w1-0", "gang-1-leader-0", "gang-1-w1-0"]
    assert (counted, engines) == ((2, 2, 2), 2)
    assert services == ["gang-0", "gang-1"]


def test_kai_places_a_replica_whole_or_not_at_all():
    async def main(lab):
        lab.apply(CLAIMS, QUEUE, pod_clique_set(replicas=2, workers=2, **KAI))
        await lab.settle()
        bound = {labels_of(pod)["grove.io/podgang"] for pod in lab.pods() if text_at(pod, "spec", "nodeName")}
        groups = lab.store.list("scheduling.run.ai", "PodGroup")
        return len(bound), sorted(group["spec"]["minMember"] for group in groups), counts(lab)

    bound, sizes, counted = run_cluster(main, pools=[gpu_pool(nodes=2)])
    assert (bound, sizes, counted) == (1, [3, 3], (2, 1, 1))


def test_a_pod_that_goes_comes_back_alone():
    async def main(lab):
        lab.apply(CLAIMS, pod_clique_set(workers=1))
        await lab.settle()
        before = {text_at(pod, "spec", "hostname"): uid_of(pod) for pod in lab.pods()}
        lab.store.delete(ref_of(next(pod for pod in lab.pods() if "-w1-" in name_of(pod))))
        await lab.settle()
        after = {text_at(pod, "spec", "hostname"): uid_of(pod) for pod in lab.pods()}
        return before, after, counts(lab)

    before, after, counted = run_cluster(main, pools=[gpu_pool(nodes=1)])
    assert before["gang-0-leader-0"] == after["gang-0-leader-0"]
    assert before["gang-0-w1-0"] != after["gang-0-w1-0"]
    assert counted == (1, 1, 1)


def test_a_new_template_reaches_every_replica_and_fewer_replicas_keep_the_first():
    async def main(lab):
        lab.apply(CLAIMS, pod_clique_set(replicas=2))
        await lab.settle()
        lab.apply(pod_clique_set(replicas=2, image="vllm/vllm-openai:v2"))
        await lab.settle()
        images = {each["image"] for pod in lab.pods() for each in pod["spec"]["containers"]}
        rolled = counts(lab)
        lab.apply(pod_clique_set(replicas=1, image="vllm/vllm-openai:v2"))
        await lab.settle()
        return images, rolled, hosts(lab)

    images, rolled, left = run_cluster(main, pools=[gpu_pool(nodes=2)])
    assert (images, rolled) == ({"vllm/vllm-openai:v2"}, (2, 2, 2))
    assert left == ["gang-0-leader-0", "gang-0-w1-0"]


def test_what_is_rendered_has_the_names_that_the_cluster_makes():
    """The address of the leader is written before Grove names the pod."""
    item = make_scene("sglang-2", "grove", "kai").compose().desired["workload-main-grove"].target.manifest
    leader = item["spec"]["template"]["cliques"][0]
    (engine,) = (each for each in leader["spec"]["podSpec"]["containers"] if each["name"] == "engine")
    (address,) = (each["value"] for each in engine["env"] if each["name"] == "MODELPLANE_LEADER_ADDRESS")

    async def main(lab):
        lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": item["metadata"]["namespace"]}}, item)
        await lab.settle()
        pod = next(pod for pod in lab.pods() if labels_of(pod)["modelplane.ai/role"] == "leader")
        return ".".join((pod["spec"]["hostname"], pod["spec"]["subdomain"], pod["metadata"]["namespace"]))

    assert address.replace("$(MODELPLANE_COPY)", "0") == run_cluster(main, pools=[gpu_pool(nodes=2)])
