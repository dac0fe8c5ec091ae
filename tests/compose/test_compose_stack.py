from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.codec import decode, encode
from modelplane.api.models import InferenceCluster, InferenceClusterStatus
from modelplane.api.timestamps import timestamp
from modelplane.catalog.stack import load_stack
from modelplane.compose import inference_cluster
from modelplane.compose.contract import ComposeRequest, Helm, Requirement
from modelplane.compose.stack import PREFIX, charts_fault, components_of
from tests.compose.clouds import seen

NOW = 1_800_000_000.0
NVIDIA = {"metadata": {"name": "h200"}, "spec": {"devices": [{"name": "g", "driver": "gpu.nvidia.com", "count": 8}]}}
EKS = {"source": "EKS", "eks": {"region": "us-east-1"}}
BASIC = (
    "cert-manager",
    "envoy-gateway",
    "gateway-class",
    "leader-worker-set",
    "node-feature-discovery",
    "dra-driver-nvidia",
)


def make(components="Managed", **spec):
    existing = {"secretRef": {"name": "east"}, **({"components": components} if components else {})}
    body = {
        "cluster": {"source": "Existing", "existing": existing},
        "nodePools": [{"name": "gpu", "className": "h200"}],
        **spec,
    }
    return decode(InferenceCluster, {"metadata": {"name": "east"}, "spec": body})


def compose(cluster, observed=None, **required):
    given = {"class-h200": (NVIDIA,), "replicas": (), **required}
    return inference_cluster.compose(ComposeRequest(cluster, observed or {}, given))


def settle(cluster):
    """The last result, what is observed then, and the keys that were added in each round."""
    observed, rounds = {}, []
    for _ in range(10):
        result = compose(cluster, observed)
        added = sorted(key for key in result.desired if key.startswith(PREFIX) and key not in observed)
        if not result.desired.keys() - observed.keys():
            return result, observed, [each for each in rounds if each]
        rounds.append(added)
        observed = {key: seen(key, desired) for key, desired in result.desired.items()}
    raise AssertionError("the cluster does not settle")


def met(result):
    (found,) = [each for each in result.conditions if each.type == "RequirementsMet"]
    return found.status.value, found.reason, found.message


def test_software_is_installed_in_the_order_of_what_it_needs():
    result, _, rounds = settle(make())
    assert rounds == [
        ["stack-cert-manager", "stack-envoy-gateway", "stack-node-feature-discovery"],
        [
            "stack-dra-driver-nvidia",
            "stack-gateway-class-envoyproxy",
            "stack-gateway-class-gatewayclass",
            "stack-leader-worker-set",
        ],
    ]
    assert met(result) == ("True", "RequirementsMet", "")
    assert result.desired["stack-leader-worker-set"].target == Helm(
        cluster="east",
        chart="lws",
        repository="oci://registry.k8s.io/lws/charts",
        version="0.10.0",
        namespace="lws-system",
        values={"enableCertManager": True},
        release="mp-leader-worker-set",
    )


def test_nothing_is_ready_before_it_is_observed():
    """42b3f3a7, 891f5e1c, a4f7d9ee: a key that was never composed was marked ready, and was an empty object."""
    first = compose(make())
    started = {key: desired for key, desired in first.desired.items() if key.startswith(PREFIX)}
    assert not any(desired.ready for desired in started.values())
    assert {desired.target.version for desired in started.values()} == {"v1.20.2", "v1.8.4", "0.19.0"}


def test_a_cluster_without_a_status_is_composed():
    """448fc943, f41dded1: a fresh cluster has no status, and reading it failed."""
    fresh = decode(InferenceCluster, {"metadata": {"name": "east"}, "spec": encode(make())["spec"]})
    assert compose(fresh).status.software.phase == "Installing"


def test_nothing_is_said_of_software_while_a_class_is_not_read():
    small = {**NVIDIA, "metadata": {"name": "l4"}}
    cluster = make(nodePools=[{"name": "gpu", "className": "h200"}, {"name": "small", "className": "l4"}])
    given = ({}, {"class-l4": (small,)})
    assert [compose(cluster, **read).status.software.phase for read in given] == [None, "Installing"]


def test_the_gateway_waits_for_what_runs_it():
    """85cd0105: the definitions of the Gateway API were absent on a fresh cluster."""
    cluster = make()
    first = compose(cluster)
    assert "gateway" not in first.desired
    assert met(first) == ("False", "Installing", f"6 of 6 components are not ready: {', '.join(BASIC)}")
    assert "gateway" in settle(cluster)[0].desired


def test_a_component_that_helm_cannot_install_is_named_with_helms_reason():
    cluster = make()
    first = compose(cluster)
    late = {key: seen(key, desired, ready=False) for key, desired in first.desired.items()}
    broken = {**late, "stack-cert-manager": replace(late["stack-cert-manager"], refused="no such chart")}
    left = f"6 of 6 components are not ready: {', '.join(BASIC)}"
    assert met(compose(cluster, late)) == ("False", "Installing", left)
    assert met(compose(cluster, broken)) == ("False", "InstallationFailed", f"cert-manager: no such chart; {left}")
    assert compose(cluster, broken).desired == compose(cluster, late).desired


def test_the_reasons_of_many_components_are_as_long_as_the_api_allows():
    cluster = make()
    first = compose(cluster)
    broken = {key: replace(seen(key, each, ready=False), refused="x" * 400) for key, each in first.desired.items()}
    assert len(met(compose(cluster, broken))[2]) == 1024


def test_the_reason_of_a_component_that_works_is_not_shown():
    """What is ready again may have failed before."""
    cluster = make()
    _, observed, _ = settle(cluster)
    failed = {**observed, "stack-cert-manager": replace(observed["stack-cert-manager"], refused="no such chart")}
    assert met(compose(cluster, failed)) == ("True", "RequirementsMet", "")


def test_what_is_used_is_removed_after_its_users():
    """df9060f6, d75d72f0: webhooks and definitions went before what needs them."""
    result, _, _ = settle(make(scheduling={"type": "Kueue"}, backend={"type": "KServe"}))
    assert set(result.desired["stack-cert-manager"].outlives) >= {"stack-leader-worker-set", "stack-kserve"}
    assert set(result.desired["stack-envoy-gateway"].outlives) >= {"stack-gateway-class-gatewayclass", "gateway"}
    assert result.desired["stack-gateway-class-gatewayclass"].outlives == ("gateway",)
    assert result.desired["stack-kserve-crds"].outlives == ("stack-kserve",)


def test_the_stack_dynamo_is_installed_in_its_order():
    """KAI has to be there before Grove makes PodGroups for it."""
    result, _, rounds = settle(make(stack="Dynamo", scheduling={"type": "Auto"}))
    assert rounds[1] == [
        "stack-dra-driver-nvidia",
        "stack-gateway-class-envoyproxy",
        "stack-gateway-class-gatewayclass",
        "stack-grove",
    ]
    assert "stack-kai" in rounds[0]
    assert "stack-leader-worker-set" not in result.desired
    assert result.desired["stack-kai"].outlives == ("stack-grove",)
    assert result.desired["stack-kai"].target.values["scheduler"] == {"args": {"default-staleness-grace-period": "-1s"}}
    assert result.desired["stack-grove"].target.values == {"crdInstaller": {"enabled": True}}
    assert met(result) == ("True", "RequirementsMet", "")
    assert (result.conditions[0].status.value, result.status.in_cluster_scheduler.type_) == ("True", "KAI")


def test_grove_is_not_installed_beside_a_kai_that_it_does_not_work_with():
    older = {"overrides": [{"name": "kai", "version": "v0.12.0"}]}
    result, _, _ = settle(make(stack="Dynamo", scheduling={"type": "KAI"}, software=older))
    assert "stack-grove" not in result.desired
    assert result.desired["stack-kai"].target.version == "v0.12.0"
    assert result.status.software.phase == "Installing"


def test_models_are_admitted_by_the_queue_of_a_managed_kai():
    """Its chart gives the queue a quota of 0, and pods that may not be preempted get no more than the quota."""
    queue = settle(make(scheduling={"type": "KAI"}))[0].desired["stack-kai"].target.values["defaultQueue"]
    assert {queue[part]["gpu"]["quota"] for part in ("parentResources", "childResources")} == {-1}


def test_nothing_is_installed_where_nobody_asked():
    for components in (None, "Provided"):
        assert not [key for key in compose(make(components)).desired if key.startswith(PREFIX)]
    assert not [each for each in compose(make(None)).conditions if each.type == "RequirementsMet"]


@given(st.sets(st.sampled_from(BASIC)), st.sampled_from([(), None, ({"metadata": {}},)]))
def test_nothing_that_is_installed_leaves_when_something_is_not_ready_or_not_read(broken, classes):
    cluster = make()
    _, observed, _ = settle(cluster)
    names = tuple(f"{PREFIX}{name}" for name in broken)
    damaged = {key: replace(item, ready=not key.startswith(names)) for key, item in observed.items()}
    required = {} if classes is None else {"class-h200": classes}
    result = compose(cluster, damaged, **required)
    assert observed.keys() <= result.desired.keys()


def test_a_component_leaves_by_a_decision():
    _, observed, _ = settle(make(scheduling={"type": "Kueue"}))
    edited = compose(make(), observed)
    assert observed.keys() - edited.desired.keys() == {"stack-kueue"}
    off = make(software={"overrides": [{"name": "leader-worker-set", "enabled": False}]})
    assert "stack-leader-worker-set" not in compose(off, observed).desired


def test_what_serves_is_not_removed_under_replicas():
    """A definition that goes takes every object of its kind along."""
    _, observed, _ = settle(make(software={"overrides": [{"name": "keda", "enabled": True}]}))
    off = [{"name": name, "enabled": False} for name in ("leader-worker-set", "keda")]
    for replicas in (({"metadata": {"name": "r"}},), None):
        given = {} if replicas is None else {"replicas": replicas}
        required = {"class-h200": (NVIDIA,), **given}
        result = inference_cluster.compose(ComposeRequest(make(software={"overrides": off}), observed, required))
        assert observed.keys() - result.desired.keys() == {"stack-keda"}
        assert result.status.software.message == (
            "leader-worker-set: not needed any more, and kept while replicas run on the cluster"
        )
        assert "stack-leader-worker-set" in result.desired["stack-cert-manager"].outlives
    software = msgspec.structs.replace(result.status.software, phase="Upgrading", start_time=timestamp(NOW))
    status = msgspec.structs.replace(result.status, software=software)
    cluster = msgspec.structs.replace(make(software={"overrides": off}), status=status)
    late = {**observed, "stack-cert-manager": replace(observed["stack-cert-manager"], ready=False)}
    given = {"class-h200": (NVIDIA,), "replicas": ({"metadata": {"name": "r"}},)}
    found = inference_cluster.compose(ComposeRequest(cluster, late, given, now=NOW))
    assert found.status.software.message == (
        "not ready: cert-manager; leader-worker-set: not needed any more, and kept while replicas run on the cluster"
    )
    held = compose(make(software={"overrides": off, "paused": True}), observed)
    assert (held.status.software.message, observed.keys() - held.desired.keys()) == (None, set())


def test_all_that_is_kept_under_replicas_is_named():
    _, observed, _ = settle(make(scheduling={"type": "Kueue"}))
    off = {"overrides": [{"name": "leader-worker-set", "enabled": False}]}
    result = compose(make(software=off), observed, replicas=({"metadata": {"name": "r"}},))
    assert result.status.software.message == (
        "kueue, leader-worker-set: not needed any more, and kept while replicas run on the cluster"
    )


@pytest.mark.parametrize("enabled", [True, False])
def test_the_driver_makes_compute_domains_where_a_pool_has_them(enabled):
    domain = {"topologyKey": "nvidia.com/gpu.clique", "nodeCount": 18, "computeDomains": enabled}
    pool = {"name": "gpu", "className": "h200", "fabric": {"name": "nvlink", "domain": domain}}
    result, _, _ = settle(make(nodePools=[pool]))
    driver = result.desired["stack-dra-driver-nvidia"].target
    assert driver.values["resources"] == {"computeDomains": {"enabled": enabled}}


def test_a_component_is_changed_when_all_others_are_as_they_are_wanted():
    two = {"cert-manager", "leader-worker-set"}
    others = [{"name": name, "enabled": False} for name in BASIC if name not in two]
    _, observed, _ = settle(make(software={"overrides": others}))
    assert {key.removeprefix(PREFIX) for key in observed if key.startswith(PREFIX)} == two
    newer = {"name": "leader-worker-set", "version": "0.11.0"}
    changed = compose(make(software={"overrides": [*others, newer]}), observed)
    assert changed.desired["stack-leader-worker-set"].target.version == "0.11.0"


def test_versions_that_do_not_fit_together_hold_an_upgrade():
    _, observed, _ = settle(make())
    cluster = make(software={"overrides": [{"name": "leader-worker-set", "version": "0.11.0"}, {"name": "none"}]})
    known = decode(InferenceClusterStatus, {"software": {"phase": "UpToDate", "release": "0.0.1", "revision": "0"}})
    found = compose(msgspec.structs.replace(cluster, status=known), observed)
    assert found.desired["stack-leader-worker-set"].target.version == "0.10.0"


def test_an_upgrade_goes_in_the_order_of_what_is_needed():
    """A component is changed when what it needs is changed and ready."""
    _, observed, _ = settle(make())
    newer = [{"name": "cert-manager", "version": "v1.21.0"}, {"name": "leader-worker-set", "version": "0.11.0"}]
    cluster = make(software={"overrides": newer})

    def versions(observed):
        desired = compose(cluster, observed).desired
        return tuple(desired[f"stack-{each['name']}"].target.version for each in newer)

    assert versions(observed) == ("v1.21.0", "0.10.0")
    changed = {key: seen(key, desired) for key, desired in compose(cluster, observed).desired.items()}
    broken = replace(changed["stack-cert-manager"], ready=False)
    assert versions({**changed, "stack-cert-manager": broken}) == ("v1.21.0", "0.10.0")
    assert versions(changed) == ("v1.21.0", "0.11.0")


def test_a_component_of_a_new_release_waits_for_versions_that_it_works_with():
    """What is missing is installed only beside what it works with: not while a change waits, nor in the same pass."""
    older = {"overrides": [{"name": "envoy-gateway", "version": "v1.7.0"}]}
    _, observed, _ = settle(make(software=older))
    pools = {"routing": "InferencePool"}
    held = compose(make(software={"paused": True}, backend=pools), observed)
    assert held.desired["stack-envoy-gateway"].target.version == "v1.7.0"
    observed = {key: seen(key, desired) for key, desired in held.desired.items()}
    assert "stack-ai-gateway" not in compose(make(software={"paused": True}, backend=pools), observed).desired
    changing = compose(make(backend=pools), observed)
    assert changing.desired["stack-envoy-gateway"].target.version != "v1.7.0"
    assert "stack-ai-gateway" not in changing.desired
    observed = {key: seen(key, desired) for key, desired in changing.desired.items()}
    assert "stack-ai-gateway" in compose(make(backend=pools), observed).desired


def test_overrides_and_mirrors():
    software = {
        "registryMirrors": [
            {"source": "registry.k8s.io", "mirror": "mirror.example/k8s"},
            {"source": "registry.k8s.io/lws", "mirror": "mirror.example/lws"},
            {"source": "charts.jetstack.io", "mirror": "mirror.example/jetstack"},
        ],
        "overrides": [
            {"name": "leader-worker-set", "version": "0.9.0", "values": {"replicaCount": 3}},
            {"name": "keda", "enabled": True},
        ],
    }
    result, _, _ = settle(make(software=software))
    lws = result.desired["stack-leader-worker-set"].target
    assert (lws.repository, lws.version) == ("oci://mirror.example/lws/charts", "0.9.0")
    assert lws.values == {
        "enableCertManager": True,
        "replicaCount": 3,
        "image": {"manager": {"repository": "mirror.example/lws/lws"}},
    }
    features = result.desired["stack-node-feature-discovery"].target
    assert features.repository == "oci://mirror.example/k8s/nfd/charts"
    assert features.values["image"] == {"repository": "mirror.example/k8s/nfd/node-feature-discovery"}
    assert result.desired["stack-cert-manager"].target.repository == "https://mirror.example/jetstack"
    assert "stack-keda" in result.desired


def test_mirrors_have_every_image_of_the_gateway_in_its_version():
    """The image had a version of its own, and the proxies were pulled past the mirror."""
    mirrors = [{"source": "docker.io", "mirror": "mirror.example/hub"}]
    newer = [{"name": "envoy-gateway", "version": "v1.8.9"}]
    result, _, _ = settle(make(software={"registryMirrors": mirrors, "overrides": newer}))
    gateway = result.desired["stack-envoy-gateway"].target
    assert gateway.values["global"] == {
        "images": {"envoyGateway": {"image": "mirror.example/hub/envoyproxy/gateway:v1.8.9"}}
    }
    plain = settle(make())[0].desired["stack-gateway-class-gatewayclass"].target
    assert result.desired["stack-gateway-class-gatewayclass"].target == plain
    proxy = result.desired["stack-gateway-class-envoyproxy"].target.manifest["spec"]["provider"]["kubernetes"]
    assert proxy == {
        "envoyService": {"externalTrafficPolicy": "Cluster"},
        "envoyDeployment": {"container": {"imageRepository": "mirror.example/hub/envoyproxy/envoy"}},
    }


@pytest.mark.parametrize(
    ("held", "status", "version"),
    [
        ({}, {}, "v1.21.0"),
        ({"paused": True}, {}, "v1.20.2"),
        ({"upgrade": {"wave": 1}}, {"phase": "UpToDate", "release": "0.0.1", "revision": "0"}, "v1.20.2"),
    ],
    ids=["at once", "paused", "not its turn yet"],
)
def test_software_that_is_held_keeps_its_version(held, status, version):
    _, observed, _ = settle(make())
    cluster = make(software={"overrides": [{"name": "cert-manager", "version": "v1.21.0"}], **held})
    cluster = msgspec.structs.replace(cluster, status=decode(InferenceClusterStatus, {"software": status}))
    assert compose(cluster, observed).desired["stack-cert-manager"].target.version == version


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ({"name": "nonsense"}, "spec.software.overrides: there is no component nonsense; components: ai-gateway,"),
        (
            {"name": "envoy-gateway", "version": "v1.9.0"},
            "spec.software.overrides: ai-gateway needs envoy-gateway >=1.8.1 <1.9.0, not v1.9.0",
        ),
    ],
)
def test_software_that_does_not_fit_together_is_refused(override, why):
    accepted = compose(make(software={"overrides": [override]}, backend={"routing": "InferencePool"})).conditions[0]
    assert (accepted.reason, accepted.message.startswith(why)) == ("Invalid", True)


@pytest.mark.parametrize(
    "found", ["v1.33.9", "v1.34.1-gke.200", "v1.34.2-gke.200", "v1.35.0+k3s1", "not a version", ""]
)
def test_a_cluster_that_is_too_old_for_the_release_is_said(found):
    """Its first installation goes on all the same: what it has may do."""
    cluster = msgspec.structs.replace(make(), status=InferenceClusterStatus(kubernetes_version=found))
    said = compose(cluster).status.software
    old = f"this release needs Kubernetes 1.34.2 or newer, and the cluster has a node of {found}"
    assert (said.phase, said.message) == ("Installing", old if found in {"v1.33.9", "v1.34.1-gke.200"} else None)


def test_a_version_that_nothing_on_the_cluster_minds_is_accepted():
    newer = {"overrides": [{"name": "envoy-gateway", "version": "v1.9.0"}]}
    assert compose(make(software=newer)).conditions[0].status.value == "True"


def have(*components):
    """The objects of a cluster that has components of the table."""
    found = {"APIService": [], "DeviceClass": [], "GatewayClass": []}
    for component in load_stack().components:
        for item in component.provides.objects() if component.name in components else ():
            found[item.kind].append({"metadata": {"name": item.name}})
    return {
        f"observed-{kind.lower()}{'es' if kind.endswith('s') else 's'}": tuple(each) for kind, each in found.items()
    }


def test_what_a_provided_cluster_lacks_is_listed():
    cluster = make("Provided")
    assert met(compose(cluster, **have(*BASIC))) == ("True", "RequirementsMet", "")
    lacking = have(*(name for name in BASIC if name not in {"leader-worker-set", "dra-driver-nvidia"}))
    told = "missing: leader-worker-set (leaderworkerset.x-k8s.io/v1); dra-driver-nvidia (DeviceClass gpu.nvidia.com)"
    assert met(compose(cluster, **lacking)) == ("False", "RequirementsMissing", told)
    unread = "APIService, DeviceClass, GatewayClass of the cluster: not read yet"
    assert met(compose(cluster)) == ("Unknown", "Unresolved", unread)
    unread = "InferenceClass h200: not read yet"
    assert met(compose(cluster, **have(*BASIC), **{"class-h200": ()})) == ("Unknown", "Unresolved", unread)


def test_what_is_read_of_a_provided_cluster():
    wanted = compose(make("Provided")).requirements
    kinds = {
        "observed-apiservices": ("apiregistration.k8s.io/v1", "APIService"),
        "observed-deviceclasses": ("resource.k8s.io/v1", "DeviceClass"),
        "observed-gatewayclasses": ("gateway.networking.k8s.io/v1", "GatewayClass"),
    }
    assert {key: wanted[key] for key in have()} == {
        key: Requirement(*kind, cluster="east") for key, kind in kinds.items()
    }
    assert not have().keys() & compose(make(None)).requirements.keys()


ONE_WAVE = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "a"}, "components": "Managed"}}}


def test_the_other_clusters_are_read_while_a_change_waits_for_its_turn():
    """Reading them costs a call for each change of one of them, so clusters without waves do not."""
    late = {"software": {"phase": "UpToDate", "release": "0.0.1", "revision": "0"}}
    earlier = ({"metadata": {"name": "a"}, "spec": {**ONE_WAVE, "software": {"upgrade": {"wave": 0}}}},)
    for upgrade, others, wanted in ((None, {}, False), ({"wave": 1}, {}, True), ({"wave": 1}, earlier, True)):
        cluster = make(software={"upgrade": upgrade} if upgrade else {})
        cluster = msgspec.structs.replace(cluster, status=decode(InferenceClusterStatus, late))
        found = compose(cluster, **({"other-clusters": others} if others else {})).requirements.get("other-clusters")
        assert found == (Requirement("modelplane.ai/v1alpha1", "InferenceCluster") if wanted else None)


def api_services(*names):
    return {"observed-apiservices": tuple({"metadata": {"name": name}} for name in names)}


def test_auto_is_resolved_from_the_cluster_and_its_queues_are_read():
    cluster = make(None, scheduling={"type": "Auto"})
    unread = compose(cluster)
    assert unread.status.in_cluster_scheduler is None
    assert unread.requirements["observed-apiservices"].kind == "APIService"
    assert "observed-queues" not in unread.requirements
    found = compose(cluster, **api_services("v1.apps", "v2.scheduling.run.ai"))
    chosen = found.status.in_cluster_scheduler
    assert (chosen.type_, chosen.message) == ("KAI", "the cluster serves APIs of KAI")
    assert found.requirements["observed-queues"].api_version == "scheduling.run.ai/v2"
    assert found.requirements["observed-apiservices"].kind == "APIService", "it is read on: the choice may change"


def test_auto_installs_what_an_override_turns_on_and_nothing_that_others_installed():
    kueue = make(scheduling={"type": "Auto"}, software={"overrides": [{"name": "kueue", "enabled": True}]})
    result, _, _ = settle(kueue)
    assert result.status.in_cluster_scheduler.message == "kueue is part of the cluster's software"
    assert "stack-kueue" in result.desired
    found = compose(make(scheduling={"type": "Auto"}), **api_services("v2.scheduling.run.ai"))
    assert found.status.in_cluster_scheduler.type_ == "KAI"
    assert "stack-kai" not in found.desired


@pytest.mark.parametrize(
    ("stack", "scheduler"), [({}, "None"), ({"stack": "Dynamo"}, "KAI")], ids=["others installed it", "Dynamo"]
)
def test_software_that_others_install_decides_where_it_is_known(stack, scheduler):
    kueue = {"software": {"overrides": [{"name": "kueue", "enabled": True}]}}
    cluster = make("Provided", scheduling={"type": "Auto"}, **(stack or kueue))
    found = compose(cluster, **api_services("v1.apps"))
    assert found.status.in_cluster_scheduler.type_ == scheduler


def test_nothing_leaves_while_one_of_the_classes_is_not_read():
    pools = [{"name": name, "className": name} for name in ("h200", "mi300x")]
    read = {"class-mi300x": (NVIDIA,)}
    _, observed, _ = settle(make())
    off = make(nodePools=pools, software={"overrides": [{"name": "leader-worker-set", "enabled": False}]})
    assert "stack-leader-worker-set" in compose(off, observed).desired
    assert "stack-leader-worker-set" not in compose(off, observed, **read).desired


def test_components_follow_from_the_cluster():
    kserve = make(backend={"type": "KServe"}, scheduling={"type": "KAI"})
    found = {component.name for component in components_of(kserve, [])}
    assert {"kserve", "kserve-crds", "inference-extension", "kai"} <= found


def test_every_component_counts():
    """05e8b4c9: releases of the AI gateway were never marked ready, and the stack was stuck."""
    cluster = make(backend={"type": "KServe"}, scheduling={"type": "KAI"})
    result, observed, _ = settle(cluster)
    assert met(result) == ("True", "RequirementsMet", "")
    for key in (key for key in observed if key.startswith(PREFIX)):
        found = met(compose(cluster, {**observed, key: replace(observed[key], ready=False)}))
        assert found[:2] == ("False", "Installing")


@pytest.mark.parametrize(
    ("cluster", "charts", "field"),
    [
        (make(), True, None),
        (make(), False, "spec.cluster.existing.components"),
        (make(None), False, None),
        (decode(InferenceCluster, {"metadata": {"name": "e"}, "spec": {"cluster": EKS}}), False, "spec.cluster.source"),
    ],
    ids=["charts can be installed", "managed components", "components of others", "a cluster of a cloud"],
)
def test_software_needs_something_that_installs_charts(cluster, charts, field):
    found = charts_fault(ComposeRequest(cluster, charts=charts))
    expected = "this control plane has no provider-helm to install software with; modelplane install --helm adds it"
    assert found == (f"{field}: {expected}" if field else None)
