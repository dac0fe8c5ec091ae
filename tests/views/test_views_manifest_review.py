"""Manifests that an API server would store and that could never run."""

from pathlib import Path

import pytest

import modelplane
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.admission.references import Severity
from modelplane.views.manifest_review import validate

SOURCE = Path(modelplane.__file__).parent
CLASS = """
kind: InferenceClass
metadata: {name: h200}
spec:
  devices:
  - name: gpu
    driver: gpu.nvidia.com
    deviceClassName: gpu.nvidia.com
    count: 8
    attributes: {architecture: {string: Hopper}, example.org/rack: {string: a}}
    capacity: {memory: {value: 141Gi}}
"""
CLUSTER = """
kind: InferenceCluster
metadata: {name: east}
spec:
  cluster: %s
  nodePools: [{name: p, className: h200}]
  scheduling: {type: KAI, queue: '%s'}
"""
EXISTING = "{source: Existing, existing: {secretRef: {name: a}}}"
WORKERS = "{topology: {%s}, engine: %s, template: {spec: {containers: [{name: engine, image: i, %s}]}}}"


def deployment(*, cel='device.driver == "gpu.nvidia.com"', count=1, topology="", engine="vLLM", extra="args: [m]"):
    return (
        "kind: ModelDeployment\nmetadata: {name: a}\nspec:\n  replicas: 1\n  nodeSelector:\n    devices:\n"
        f"    - name: gpu\n      count: {count}\n      selectors:\n      - cel: >-\n          {cel}\n"
        f"  workers: {WORKERS % (topology, engine, extra)}\n"
    )


def told(*manifests):
    text = "---\n".join(f"apiVersion: modelplane.ai/v1alpha1\n{each.lstrip()}" for each in manifests)
    findings = validate(parse_documents(text.encode(), source="f")).findings
    return [(each.severity.value, str(each.problem)) for each in findings]


TENSOR = "spec.workers.topology.tensor"
CEL = "spec.nodeSelector.devices[0].selectors[0].cel"
SPLIT = ", or split layers over nodes by tensorLocal"
AGREE = "make both agree"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"count": 8, "topology": "tensor: 8"}, None),
        ({"count": 8, "topology": "tensor: 8, pipeline: 2"}, None),
        (
            {"topology": "tensor: 8"},
            f"{TENSOR}: tensor 8 needs 8 devices in a pod; nodeSelector requests 1; {AGREE}{SPLIT}",
        ),
        ({"count": 8, "topology": "tensor: 16, tensorLocal: 8"}, None),
        (
            {"count": 4, "topology": "tensor: 16, tensorLocal: 8"},
            f"{TENSOR}: tensorLocal 8 needs 8 devices in a pod; nodeSelector requests 4; {AGREE}",
        ),
        (
            {"count": 4, "topology": "tensor: 2, data: 8, dataLocal: 4"},
            f"{TENSOR}: tensor 2 for each of 4 ranks needs 8 devices in a pod; nodeSelector requests 4; {AGREE}",
        ),
        ({"topology": "tensor: 8", "engine": "Custom"}, None),
        ({"topology": "tensor: 8", "extra": "command: [run]"}, None),
        ({"count": 8, "extra": "args: [m, --tensor-parallel-size=8]"}, None),
        ({"count": 4, "topology": "tensor: 4, pipeline: 2", "extra": "args: [m, -tp, '8']"}, None),
        (
            {"extra": "args: [m, --tensor-parallel-size, '8']"},
            f"spec: the engine's arguments ask for 8 devices; its nodeSelector requests 1; {AGREE}",
        ),
        (
            {"count": 2, "extra": "args: [m, -tp=2, --pipeline-parallel-size=2]"},
            f"spec: the engine's arguments ask for 4 devices; its nodeSelector requests 2; {AGREE}",
        ),
        ({"extra": "args: [m, -tp, many]"}, None),
    ],
)
def test_devices_and_topology(given, problem):
    assert told(CLASS, deployment(**given)) == ([("error", problem)] if problem else [])


MEMBER = """{role: %s, nodeSelector: {devices: [{name: gpu, count: 8, selectors: [{cel: 'device.driver == "d"'}]}]}, %s
      template: {spec: {containers: [{name: engine, image: i, args: [m, -tp, "16"]}]}}}"""
GANG = [MEMBER % ("Leader", ""), MEMBER % ("Worker", "worker: {nodes: 1},")]


@pytest.mark.parametrize(
    ("members", "devices"), [([MEMBER % ("Standalone", "")], 8), (GANG, None)], ids=["one node", "two nodes"]
)
@pytest.mark.parametrize("within", ["", "template"])
def test_arguments_of_engines_that_are_spelled_out(members, devices, within):
    engines = f"engines: [{{name: main, members: [{', '.join(members)}]}}]"
    spec = f"template: {{spec: {{{engines}}}}}" if within else engines
    path = "spec.template.spec.engines[0]" if within else "spec.engines[0]"
    wrong = f"{path}: the engine's arguments ask for 16 devices; its nodeSelector requests {devices}; {AGREE}"
    found = told(f"kind: ModelDeployment\nmetadata: {{name: a}}\nspec: {{replicas: 1, {spec}}}\n")
    assert found == ([("error", wrong)] if devices else [])


@pytest.mark.parametrize(
    ("cel", "expected"),
    [
        (
            'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80GiB")) >= 0',
            ("error", 'quantity("80GiB") fails on every device; did you mean "80Gi"?'),
        ),
        (
            'device.capacity["gpu.nvidia.com"].memroy.compareTo(quantity("80Gi")) >= 0',
            (
                "error",
                'no InferenceClass of this set has capacity "memroy" of gpu.nvidia.com; did you mean memory?',
            ),
        ),
        (
            'device.attributes["gpu.nvidia.com"].zone == "a"',
            (
                "warning",
                'no InferenceClass of this set has attributes "zone" of gpu.nvidia.com; they have architecture',
            ),
        ),
        ('device.attributes["example.org"].rack == "a"', None),
        ('device.attributes["amd.com"].family == "a"', None),
    ],
)
def test_units_and_names_of_selectors(cel, expected):
    assert told(CLASS, deployment(cel=cel)) == ([(expected[0], f"{CEL}: {expected[1]}")] if expected else [])


def test_without_classes_no_name_is_unknown():
    assert told(deployment(cel='device.attributes["gpu.nvidia.com"].zone == "a"')) == []


def test_what_composers_do_not_accept_is_told_before():
    assert told(CLASS, CLUSTER % (EXISTING, "team-a")) == []
    assert told(CLASS, CLUSTER % (EXISTING, "{{ .Nonsense }}")) == [
        (
            "error",
            "spec.scheduling.queue: a queue may hold {{ .Namespace }}, and no other token",
        )
    ]
    zones = "spec.nodePools: [0].zones: GPUs are not in every zone of a region; name the zones of the pool"
    found = told(CLASS, CLUSTER % ("{source: GKE, gke: {region: a}}", "team-a"))
    assert found == [("warning", zones.replace(": [0].zones", ""))]
    dynamo = (CLUSTER % (EXISTING, "team-a")).replace("spec:", "spec:\n  stack: Dynamo", 1)
    needs = "spec.stack: Dynamo needs spec.scheduling.type: KAI, which places the gangs of Grove"
    assert told(CLASS, dynamo) == []
    assert told(CLASS, dynamo.replace("type: KAI", "type: Volcano")) == [("warning", needs)]


def test_an_older_form_is_told_with_the_newer_one():
    cache = "kind: ModelCache\nmetadata: {name: w}\nspec: {artifact: {source: {inline: {filename: a, content: b}}}}\n"
    assert told(cache) == [
        ("warning", "spec.artifact.source: is an older form; write spec.source: Inline and spec.inline")
    ]


def test_fields_without_effect_are_told_with_their_place():
    edited = (CLUSTER % (EXISTING, "a")).replace("className: h200", "className: h200, minNodeCount: 1, maxNodeCount: 2")
    assert told(CLASS, edited) == [
        ("warning", "spec.nodePools[0].minNodeCount: has no effect on a cluster that exists already; leave it out")
    ]


def test_earlier_forms_are_accepted_and_the_newer_ones_are_shown():
    endpoint = """
kind: ModelEndpoint
metadata: {name: a}
spec: {url: 'https://api.example', rewritePath: /openai, auth: {secretRef: {name: s, key: k}}}
"""
    gateway = "kind: InferenceGateway\nmetadata: {name: a}\nspec: {clusterName: east, tls: {secretRef: {name: s}}}\n"
    text = "---\n".join(f"apiVersion: modelplane.ai/v1alpha1\n{each.lstrip()}" for each in (endpoint, gateway))
    found = validate(parse_documents(text.encode(), source="f")).findings
    fields = {".".join(map(str, each.problem.path)) for each in found if each.severity is Severity.WARNING}
    assert {"spec.auth", "spec.rewritePath", "spec.tls.secretRef"} <= fields
    assert "spec.clusterName" not in fields
    assert not [each for each in found if each.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        ("memory", []),
        ("memroy", [("error", "did you mean memory?")]),
        ("bandwidth", [("warning", "they have memory")]),
    ],
)
def test_capacities_that_no_class_has(capacity, expected):
    made = deployment().replace("selectors:", f"capacity: {{requests: {{{capacity}: 1Gi}}}}\n      selectors:")
    place = f"spec.nodeSelector.devices[0].capacity.requests.{capacity}"
    words = f'no InferenceClass of this set has capacity "{capacity}"'
    assert told(CLASS, made) == [(severity, f"{place}: {words}; {hint}") for severity, hint in expected]
    assert told(made) == []


def test_a_class_that_draws_on_counters_that_are_not_there_is_told():
    draws = "consumesCounters: [{counterSet: gpu, counters: {slices: {value: '1'}}}]"
    wrong = "spec.devices: device gpu: draws on counter set gpu, which does not exist"
    assert told(CLASS.replace("count: 8", f"count: 8\n    {draws}")) == [("error", wrong)]
