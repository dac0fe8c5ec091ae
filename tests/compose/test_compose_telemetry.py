"""The collector of a cluster: what is rendered, what is left out and why, and what stays when an input is missing."""

from pathlib import Path

import pytest
import yaml

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.api.objects import name_of
from modelplane.compose import inference_cluster
from modelplane.compose.contract import ComposeRequest, CopiedFrom, Observed, ReadyWhen, Remote, Requirement
from modelplane.compose.telemetry.cluster_telemetry import telemetry_requirements
from modelplane.compose.telemetry.collector_objects import collector_rights
from tests.compose.clouds import compose as compose_cloud
from tests.compose.clouds import make_cloud, settled

GOLDEN = Path(__file__).parent / "golden_collector.yaml"
CLASS = {
    "metadata": {"name": "h200"},
    "spec": {"devices": [{"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu", "count": 8}]},
}
PROM = {
    "name": "prom",
    "type": "prometheus_remote_write",
    "endpoint": "https://metrics.example.org/api/v1/write",
    "secretRef": {"name": "prom-cred"},
    "auth": {"bearerTokenKey": "token"},
}
TRACES = {
    "name": "tempo",
    "type": "otlp_http",
    "endpoint": "https://traces.example.org:4318",
    "signals": ["Traces"],
    "config": {"headers": {"x-team": "${env:TEAM}"}, "compression": "zstd"},
}
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "prom-cred", "namespace": "modelplane-system", "resourceVersion": "7"},
    "data": {"token": "Y2FuYXJ5"},
}


def destination(name="ops", *sinks, **spec):
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "TelemetryDestination",
        "metadata": {"name": name},
        "spec": {"sinks": list(sinks or (PROM, TRACES)), **spec},
    }


def mapping(name, *metrics):
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "MetricMapping",
        "metadata": {"name": name},
        "spec": {"metrics": list(metrics)},
    }


def gateway(*allow):
    return {"metadata": {"name": "default"}, "spec": {"outbound": {"allow": list(allow)}} if allow else {}}


HOUSE = mapping(
    "house",
    {"from": "house_queue_len", "to": "modelplane_requests_waiting"},
    {"from": "house_latency_ms", "to": "modelplane_request_duration_seconds", "fromUnit": "Milliseconds"},
    {
        "from": "house_latency_ms",
        "part": "Count",
        "to": "modelplane_requests_total",
        "labels": [
            {"name": "engine_kind", "value": "house"},
            {"name": "status", "from": "code", "values": {"0": "ok"}},
        ],
    },
)
GIVEN = {
    "class-h200": (CLASS,),
    "replicas": (),
    "telemetry-destinations": (destination(),),
    "telemetry-mappings": (HOUSE,),
    "telemetry-gateway": (gateway(),),
    "telemetry-secret-prom-cred": (SECRET,),
}
CLUSTER = {
    "metadata": {"name": "east", "uid": "u", "generation": 1},
    "spec": {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}},
        "nodePools": [{"name": "gpu", "className": "h200", "nodeCount": 1}],
    },
}


MANAGED = {"source": "Existing", "existing": {"secretRef": {"name": "east"}, "components": "Managed"}}


def request(given=GIVEN, seen=None, **spec):
    item = {**CLUSTER, "spec": {**CLUSTER["spec"], **spec}}
    return ComposeRequest(decode(InferenceCluster, item), seen or {}, given)


def compose(given=GIVEN, seen=None, **spec):
    return inference_cluster.compose(request(given, seen, **spec))


def telemetry(result):
    return {key: item for key, item in result.desired.items() if key.startswith("telemetry-")}


def running(result, **refused):
    return {
        key: Observed(item.target, ready=True, outlives=item.outlives, refused=refused.get(key, ""))
        for key, item in result.desired.items()
    }


def condition(result):
    found = [each for each in result.conditions if each.type == "TelemetryReady"]
    return [(each.status.value, str(each.reason), each.message) for each in found]


def config(result):
    return yaml.safe_load(telemetry(result)["telemetry-config"].target.manifest["data"]["collector.yaml"])


def test_the_collector_is_as_reviewed_and_well_formed(problems, golden):
    objects = [item.target.manifest for item in telemetry(compose(cluster=MANAGED)).values()]
    assert [found for item in objects for found in problems(item)] == []
    parts = ("account", "role", "binding", "config", "service", "collector", "secret-prom-cred")
    made = telemetry(compose(cluster=MANAGED))
    before = {f"telemetry-{part}": ("telemetry-collector",) for part in parts}
    assert {key: item.outlives for key, item in made.items()} == {**before, "telemetry-collector": ()}
    ready = dict.fromkeys(before, ReadyWhen.CREATED)
    assert {key: item.target.ready_when for key, item in made.items()} == {
        **ready,
        "telemetry-collector": ReadyWhen.AVAILABLE,
    }
    golden.check(GOLDEN, yaml.safe_dump_all(objects, sort_keys=False, width=110))


def test_without_a_destination_there_is_no_collector_and_no_condition():
    result = compose({**GIVEN, "telemetry-destinations": ()})
    assert (telemetry(result), condition(result)) == ({}, [])
    said = {"conditions": [{"type": "TelemetryReady", "status": "True", "reason": "CollectorRunning"}]}
    item = decode(InferenceCluster, {**CLUSTER, "status": said})
    after = inference_cluster.compose(ComposeRequest(item, {}, {**GIVEN, "telemetry-destinations": ()}))
    assert (telemetry(after), condition(after)) == ({}, [("True", "NoDestinations", "")])
    only = telemetry_requirements(request({**GIVEN, "telemetry-destinations": ()}))
    assert {key: wanted.kind for key, wanted in only.items()} == {"telemetry-destinations": "TelemetryDestination"}


def test_no_value_of_a_secret_is_rendered():
    result = compose()
    assert "Y2FuYXJ5" not in repr(result)
    copy = result.desired["telemetry-secret-prom-cred"].target
    assert copy.copied_from == CopiedFrom("v1", "Secret", "prom-cred", "modelplane-system", ("data",), "7")


def test_the_condition_follows_the_collector_and_never_the_cluster():
    starting = compose(cluster=MANAGED)
    assert condition(starting) == [("False", "CollectorStarting", "the collector is not available")]
    after = compose(seen=running(starting), cluster=MANAGED)
    assert condition(after) == [("True", "CollectorRunning", "2 sinks: prom, tempo")]
    seen = running(starting, **{"telemetry-role": "clusterroles is forbidden"})
    refused = compose(seen=seen, cluster=MANAGED)
    assert condition(refused) == [
        (
            "False",
            "CollectorFailed",
            "the cluster refuses an object of the collector: modelplane-collector: clusterroles is forbidden",
        )
    ]
    assert refused.ready.reason != "CollectorFailed"


UNREAD = [
    ({"telemetry-destinations": None}, "TelemetryDestinations are not read yet"),
    ({"telemetry-mappings": None}, "MetricMappings are not read yet"),
    ({"telemetry-gateway": None}, "InferenceGateway default is not read yet"),
    ({"telemetry-secret-prom-cred": None}, "Secret modelplane-system/prom-cred is not read yet"),
    ({"telemetry-destinations": ()}, "TelemetryDestinations are not read yet"),
    ({"telemetry-destinations": ({"metadata": {"name": "ops"}, "spec": 7},)}, "TelemetryDestination ops: "),
    ({"telemetry-mappings": ({"metadata": {"name": "house"}, "spec": {}},)}, "MetricMapping house: "),
    ({"telemetry-gateway": (gateway("not a host!"),)}, "InferenceGateway default: spec.outbound.allow: "),
]


@pytest.mark.parametrize(("missing", "message"), UNREAD)
def test_what_runs_stays_while_an_input_is_missing(missing, message):
    before = compose()
    given = {key: value for key, value in {**GIVEN, **missing}.items() if value is not None}
    result = compose(given, running(before))
    assert {key: item.target for key, item in telemetry(result).items()} == {
        key: item.target for key, item in telemetry(before).items()
    }
    ((status, _, said),) = condition(result)
    assert status == "Unknown"
    assert said.startswith(message)


def test_what_runs_stays_while_its_configuration_is_not_observed():
    seen = running(compose())
    rest = {key: item for key, item in seen.items() if key != "telemetry-config"}
    result = compose({**GIVEN, "telemetry-destinations": ()}, rest)
    assert telemetry(result).keys() == {key for key in rest if key.startswith("telemetry-")}
    assert condition(result) == [("Unknown", "Unresolved", "the configuration of the collector is not read yet")]


def test_a_sink_without_an_endpoint_has_its_settings_only():
    sink = {"name": "out", "type": "debug", "config": {"verbosity": "detailed", "sampling": 2}}
    result = compose({**GIVEN, "telemetry-destinations": (destination("ops", sink),)})
    assert config(result)["exporters"] == {"debug/out": {"verbosity": "detailed", "sampling": 2}}


def test_where_an_extension_listens_is_no_way_out():
    listeners = {"zpages": {"endpoint": "localhost:55679"}, "pprof/mine": {"endpoint": "localhost:1777"}}
    result = compose({**GIVEN, "telemetry-destinations": (destination("ops", TRACES, extensions=listeners),)})
    kept = config(result)["extensions"]
    assert {name: kept.get(name) for name in listeners} == listeners


OAUTH = {"token_url": "https://login.example.org/token", "scopes": ["write", "https://metrics.example.org/all", 7]}
EXTENSIONS = [
    (
        {"oauth2client": {"token_url": "https://login.monitoring.svc/token"}},
        "OutboundRefused",
        "spec.extensions.oauth2client.token_url: login.monitoring.svc is a name of an internal network (.svc); ",
    ),
    (
        {"oauth2client": {"token_url": "https://me:pw@login.example.org"}},
        "Invalid",
        "spec.extensions.oauth2client.token_url: not a URL or host:port without user and variables",
    ),
    ({"health_check": {}}, "Invalid", "spec.extensions.health_check: Modelplane has an extension of this name itself"),
    (
        {"bearertokenauth/sink-prom": {"token": "x"}},
        "Invalid",
        "spec.extensions.bearertokenauth/sink-prom: Modelplane has an extension of this name itself",
    ),
    ({"basicauth": {}}, "Invalid", "spec.extensions.basicauth: TelemetryDestination a has it"),
]


@pytest.mark.parametrize(("extensions", "reason", "message"), EXTENSIONS)
def test_an_extension_that_is_refused_goes_and_the_others_stay(extensions, reason, message):
    first = destination("a", TRACES, extensions={"basicauth": {"limit": 3}})
    second = destination("b", PROM, extensions={**extensions, "oauth2client/mine": OAUTH})
    result = compose({**GIVEN, "telemetry-destinations": (second, first)})
    kept = config(result)["extensions"]
    assert {name: kept[name] for name in kept if "auth" in name and "/sink-" not in name} == {
        "basicauth": {"limit": 3},
        "oauth2client/mine": OAUTH,
    }
    ((status, why, said),) = condition(result)
    assert (status, why) == ("False", reason)
    assert said.startswith(f"TelemetryDestination b: {message}")


def test_new_values_of_a_label_are_not_read_as_its_old_ones():
    own = mapping(
        "swap",
        {"from": "x", "to": "modelplane_x", "labels": [{"name": "on", "from": "on", "values": {"0": "1", "1": "0"}}]},
    )
    result = compose({**GIVEN, "telemetry-mappings": (own,)})
    groups = config(result)["processors"]["transform/modelplane"]["metric_statements"]
    where = 'where metric.name == "x"'
    copied = 'datapoint.attributes["modelplane.copy"]'
    assert [text for group in groups for text in group["statements"] if where in text and "datapoint" in text] == [
        f'set({copied}, datapoint.attributes["on"]) {where}',
        f'set(datapoint.attributes["on"], "1") {where} and {copied} == "0"',
        f'set(datapoint.attributes["on"], "0") {where} and {copied} == "1"',
    ]


def test_a_destination_that_the_list_lacks_is_read_by_name_and_leaves_when_it_is_gone():
    seen = running(compose())
    late = {**GIVEN, "telemetry-destinations": ()}
    named = Requirement("modelplane.ai/v1alpha1", "TelemetryDestination", name="ops")
    assert telemetry_requirements(request(late, seen))["telemetry-destination-ops"] == named
    found = compose({**late, "telemetry-destination-ops": (destination(),)}, seen)
    assert config(found) == config(compose())
    gone = compose({**late, "telemetry-destination-ops": ()}, seen)
    assert (telemetry(gone), condition(gone)) == ({}, [])


@pytest.mark.parametrize("key", ["telemetry-destinations", "telemetry-mappings", "telemetry-gateway"])
def test_a_status_of_what_is_read_does_not_matter(key):
    (item,) = GIVEN[key]
    garbled = compose({**GIVEN, key: ({**item, "status": 7},)})
    assert (config(garbled), condition(garbled)) == (config(compose()), condition(compose()))


def test_a_secret_that_is_missing_leaves_its_sink_out_unless_its_copy_is_there():
    without = {**GIVEN, "telemetry-secret-prom-cred": ()}
    new = compose(without)
    assert list(config(new)["exporters"]) == ["otlp_http/tempo"]
    message = "TelemetryDestination ops: Secret modelplane-system/prom-cred of sink prom does not exist"
    assert condition(new) == [("False", "SecretMissing", message)]
    old = compose(without, running(compose()))
    kept = "telemetry-secret-prom-cred"
    assert telemetry(old).keys() == telemetry(compose()).keys()
    assert telemetry(old)[kept].target == telemetry(compose())[kept].target
    assert config(old) == config(compose())
    assert condition(old) == [("False", "SecretMissing", message)]
    lacking = compose({**GIVEN, "telemetry-secret-prom-cred": ({**SECRET, "data": {}},)})
    assert condition(lacking)[0][2].endswith("of sink prom has no key token")


FAULTS = [
    (
        {**TRACES, "endpoint": "http://tempo.monitoring.svc:4318"},
        ("OutboundRefused", "spec.sinks[0].endpoint: tempo.monitoring.svc is a name of an internal network (.svc); "),
    ),
    ({**TRACES, "endpoint": "http://169.254.169.254/"}, ("OutboundRefused", "spec.sinks[0].endpoint: 169.254.169.254")),
    ({**TRACES, "endpoint": "https://user:pw@traces.example.org"}, ("Invalid", "spec.sinks[0].endpoint: not an http")),
    ({**TRACES, "endpoint": "https://${env:HOST}/"}, ("Invalid", "spec.sinks[0].endpoint: not an http or https URL")),
    (
        {**TRACES, "endpoint": "traces.example.org:4318"},
        ("Invalid", "spec.sinks[0].endpoint: not an http or https URL"),
    ),
    (
        {**TRACES, "endpoint": "ftp://traces.example.org"},
        ("Invalid", "spec.sinks[0].endpoint: not an http or https URL without user and variables"),
    ),
    (
        {**TRACES, "type": "otlp_grpc", "endpoint": "ftp://traces.example.org"},
        ("Invalid", "spec.sinks[0].endpoint: not host:port or an http or https URL without user and variables"),
    ),
    (
        {**TRACES, "type": "otlp_grpc", "endpoint": "10.0.0.1:4317"},
        ("OutboundRefused", "spec.sinks[0].endpoint: 10.0.0.1, a private address"),
    ),
    (
        {**TRACES, "config": {"retry": [{"proxy_url": "http://localhost:3128"}]}},
        ("OutboundRefused", "spec.sinks[0].config.retry[0].proxy_url: localhost is a name of an internal network"),
    ),
    (
        {"name": "logs", "type": "kafka", "config": {"brokers": ["kafka.example.org:9092", "169.254.169.254:9092"]}},
        ("OutboundRefused", "spec.sinks[0].config.brokers[1]: 169.254.169.254, a metadata service address"),
    ),
    (
        {"name": "bare", "type": "otlp_grpc", "config": {"endpoint": "kubernetes:443"}},
        ("OutboundRefused", "spec.sinks[0].config.endpoint: kubernetes is a name without a domain"),
    ),
    (
        {"name": "bare", "type": "cassandra", "config": {"dsn": "127.0.0.1"}},
        ("OutboundRefused", "spec.sinks[0].config.dsn: 127.0.0.1, a loopback address"),
    ),
    (
        {"name": "hidden", "type": "kafka", "config": {"brokers": "${env:BROKERS}"}},
        ("Invalid", "spec.sinks[0].config.brokers: not a URL or host:port without user and variables"),
    ),
    (
        {"name": "prom", "type": "prometheus_remote_write", "endpoint": "https://m.example.org", "signals": ["Traces"]},
        ("Invalid", "spec.sinks[0].signals: prometheus_remote_write takes no Traces"),
    ),
]


@pytest.mark.parametrize(("sink", "fault"), FAULTS)
def test_a_sink_that_is_refused_goes_and_the_others_stay(sink, fault):
    other = {"name": "other", "type": "otlp_grpc", "endpoint": "otlp.example.org:4317"}
    result = compose({**GIVEN, "telemetry-destinations": (destination("ops", sink, other),)})
    assert list(config(result)["exporters"]) == ["otlp_grpc/other"]
    ((status, reason, message),) = condition(result)
    assert (status, reason) == ("False", fault[0])
    assert message.startswith(f"TelemetryDestination ops: {fault[1]}")


def test_a_collector_without_a_sink_that_is_allowed_goes():
    inside = destination("ops", {**TRACES, "endpoint": "http://tempo.monitoring.svc:4318"})
    seen = running(compose({**GIVEN, "telemetry-destinations": (inside,), "telemetry-gateway": (gateway("*.svc"),)}))
    assert "telemetry-collector" in seen
    refused = compose({**GIVEN, "telemetry-destinations": (inside,)}, seen)
    assert telemetry(refused) == {}
    assert condition(refused)[0][1] == "OutboundRefused"


def test_the_destination_whose_name_sorts_first_keeps_a_name():
    two = (destination("b", TRACES), destination("a", {**TRACES, "endpoint": "https://other.example.org"}))
    result = compose({**GIVEN, "telemetry-destinations": two})
    assert config(result)["exporters"]["otlp_http/tempo"]["endpoint"] == "https://other.example.org"
    assert condition(result)[0][2] == "TelemetryDestination b: spec.sinks[0].name: TelemetryDestination a has tempo"


def test_what_the_plane_decides_wins_over_the_settings_of_a_sink():
    own = {
        **PROM,
        "config": {"endpoint": "https://elsewhere.example.org", "auth": {"authenticator": "x"}, "timeout": "5s"},
    }
    result = compose({**GIVEN, "telemetry-destinations": (destination("ops", own),)})
    assert config(result)["exporters"]["prometheus_remote_write/prom"] == {
        "endpoint": PROM["endpoint"],
        "auth": {"authenticator": "bearertokenauth/sink-prom"},
        "timeout": "5s",
    }


def test_a_cluster_names_the_image_or_has_a_mirror_of_it():
    def image(**spec):
        deployment = telemetry(compose(**spec))["telemetry-collector"].target.manifest
        return deployment["spec"]["template"]["spec"]["containers"][0]["image"]

    assert image().startswith("docker.io/otel/opentelemetry-collector-contrib:")
    assert image(backend={"images": {"collector": "mine/collector:1"}}) == "mine/collector:1"
    mirrors = {"registryMirrors": [{"source": "docker.io", "mirror": "mirror.example.org/hub"}]}
    assert image(software=mirrors).startswith("mirror.example.org/hub/otel/")


def test_an_own_mapping_replaces_the_built_in_one():
    own = mapping("mine", {"from": "vllm:num_requests_waiting", "to": "modelplane_queue"})
    result = compose({**GIVEN, "telemetry-mappings": (own,)})
    renames = config(result)["processors"]["transform/modelplane"]["metric_statements"][-1]["statements"]
    named = [text for text in renames if text.startswith("set(metric.name") and "vllm:num_requests_waiting" in text]
    assert named == ['set(metric.name, "modelplane_queue") where metric.name == "vllm:num_requests_waiting"']


def test_the_rollout_of_a_collector_follows_its_configuration():
    def digest(result):
        template = telemetry(result)["telemetry-collector"].target.manifest["spec"]["template"]
        return template["metadata"]["annotations"]["modelplane.ai/config-digest"]

    assert digest(compose()) == digest(compose())
    assert digest(compose()) != digest(compose({**GIVEN, "telemetry-mappings": ()}))


def test_nothing_is_made_on_a_cluster_that_does_not_exist_yet():
    cluster = {"source": "GKE", "gke": {"project": "p", "region": "r"}}
    assert all(not isinstance(item.target, Remote) for item in compose(cluster=cluster).desired.values())
    assert {name_of(item.target.manifest) for item in telemetry(compose()).values()} >= {"modelplane-collector"}
    item = make_cloud("GKE", "fixed", monitors="PrometheusOperator")
    early = compose_cloud(item, None, **GIVEN)
    assert [key for key in early.desired if key.startswith(("telemetry-", "monitor-"))] == []
    _, observed = settled(item, **GIVEN)
    del observed["cloud-cluster"]
    late = compose_cloud(item, observed, **GIVEN)
    assert {"telemetry-collector", "monitor-engines"} <= late.desired.keys()


def test_rights_are_granted_only_with_the_kubeconfig_of_an_administrator():
    granted = {"telemetry-role", "telemetry-binding"}
    assert telemetry(compose(cluster=MANAGED)).keys() - telemetry(compose()).keys() == granted
    assert list(collector_rights()) == [
        telemetry(compose(cluster=MANAGED))[key].target.manifest for key in ("telemetry-role", "telemetry-binding")
    ]
