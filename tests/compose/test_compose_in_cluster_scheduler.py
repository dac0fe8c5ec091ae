import pytest

from modelplane.api.chosen_scheduler import with_chosen_scheduler
from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.catalog.stack import load_stack
from modelplane.compose.in_cluster_scheduler import choose_scheduler

APIS = {"KAI": "v2.scheduling.run.ai", "Volcano": "v1beta1.scheduling.volcano.sh", "Kueue": "v1beta2.kueue.x-k8s.io"}
ALSO = ("v1.", "v1.apps", "v1alpha1.gateway.envoyproxy.io")


def make(scheduler="Auto", known=None):
    status = {"inClusterScheduler": {"type": known}} if known else {}
    existing = {"source": "Existing", "existing": {"secretRef": {"name": "east"}}}
    body = {"metadata": {"name": "east"}, "spec": {"cluster": existing, "scheduling": {"type": scheduler}}}
    return decode(InferenceCluster, {**body, "status": status})


def components(*names):
    return [component for component in load_stack().components if component.name in names]


def choose(cluster, served, installed=(), *, has_replicas=False):
    found = choose_scheduler(cluster, components(*installed), served, has_replicas=has_replicas)
    return None if found is None else (found.type_, found.message)


@pytest.mark.parametrize(
    ("served", "installed", "expected"),
    [
        (None, (), None),
        (ALSO, (), ("None", "the cluster serves no API of KAI, Volcano, Kueue")),
        ((*ALSO, APIS["Kueue"]), (), ("Kueue", "the cluster serves APIs of Kueue")),
        (("v1beta1.kueue.x-k8s.io",), (), ("Kueue", "the cluster serves APIs of Kueue")),
        (APIS.values(), (), ("KAI", "the cluster serves APIs of KAI, and of Volcano, Kueue, which come after it")),
        (
            (APIS["Kueue"], APIS["Volcano"]),
            (),
            ("Volcano", "the cluster serves APIs of Volcano, and of Kueue, which come after it"),
        ),
        ((APIS["Volcano"],), ("cert-manager", "kueue"), ("Kueue", "kueue is part of the cluster's software")),
        (None, ("grove", "kai"), ("KAI", "kai is part of the cluster's software")),
    ],
    ids=["not read", "none", "one", "another version", "all", "two", "software comes first", "Dynamo"],
)
def test_what_auto_stands_for(served, installed, expected):
    assert choose(make(), served, installed) == expected


def test_a_scheduler_that_is_named_is_not_chosen():
    assert choose(make("Kueue"), [APIS["KAI"]]) is None


def test_a_choice_stays_while_replicas_run():
    """It is in every pod: another choice would replace them all."""
    cluster = make(known="Kueue")
    assert choose(cluster, [APIS["KAI"]], has_replicas=True) == (
        "Kueue",
        "Kueue stays while replicas run on the cluster; without them: the cluster serves APIs of KAI",
    )
    assert choose(cluster, [APIS["KAI"]])[0] == "KAI"
    assert choose(cluster, None)[0] == "Kueue", "a cluster that cannot be read keeps its scheduler"
    assert choose(make(known="None"), [APIS["KAI"]], has_replicas=True)[1].startswith("kube-scheduler alone stays")


@pytest.mark.parametrize(
    ("scheduler", "known", "expected"),
    [("Auto", "KAI", "KAI"), ("Auto", None, "Auto"), ("Volcano", "KAI", "Volcano"), ("None", None, "None")],
)
def test_the_scheduler_that_pods_are_rendered_for(scheduler, known, expected):
    assert with_chosen_scheduler(make(scheduler, known)).spec.scheduling.type_ == expected
