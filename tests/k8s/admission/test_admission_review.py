from pathlib import Path

import pytest

from modelplane.api.definitions import definitions
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.admission.references import Severity
from modelplane.k8s.admission.review import review

EXAMPLES = Path(__file__).parents[3] / "examples"
INTERNAL = "infrastructure.modelplane.ai/v1alpha1"
CLASS = """\
apiVersion: modelplane.ai/v1alpha1
kind: InferenceClass
metadata:
  name: h100
spec:
  devices:
  - name: gpu
    driver: gpu.nvidia.com
    claim: Synthetic
"""


def told(text: str) -> list[tuple[int, str, str, str]]:
    documents = parse_documents(text.encode(), source="f")
    return [
        (found.line, f"{found.kind}/{found.name}", found.severity.value, str(found.problem))
        for found in review(documents).findings
    ]


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_valid_one_by_one(path):
    documents = parse_documents(path.read_bytes(), source=path.name)
    assert review(documents).count(Severity.ERROR) == 0


def test_a_valid_object():
    found = review(parse_documents(CLASS.encode(), source="f"))
    assert (found.objects, found.findings, dict(found.skipped)) == (1, (), {})


def test_other_kinds_are_counted():
    text = (
        "apiVersion: v1\nkind: Secret\n---\napiVersion: apps/v1\nkind: Deployment\n---\napiVersion: v1\nkind: Secret\n"
    )
    found = review(parse_documents(text.encode(), source="f"))
    assert (found.objects, found.findings, list(found.skipped.items())) == (
        0,
        (),
        [("Deployment", 1), ("Secret", 2)],
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("just text", [(1, "/", "error", '.: is "just text"; a manifest is an object with apiVersion and kind')]),
        ("- a\n", [(1, "/", "error", ".: is a list of 1; a manifest is an object with apiVersion and kind")]),
        ("kind: X\n", [(1, "X/", "error", "apiVersion: is required; give a string")]),
        ("apiVersion: v1\nkind: 3\n", [(2, "/", "error", "kind: is required; give a string")]),
        (
            "apiVersion: modelplane.ai/v1\nkind: ModelCache\nmetadata: {name: a}\n",
            [
                (
                    1,
                    "ModelCache/a",
                    "error",
                    'apiVersion: "modelplane.ai/v1" has no ModelCache; use modelplane.ai/v1alpha1',
                )
            ],
        ),
        (
            "apiVersion: modelplane.ai/v1alpha1\nkind: ServingStack\n",
            [
                (
                    1,
                    "ServingStack/",
                    "error",
                    f'apiVersion: "modelplane.ai/v1alpha1" has no ServingStack; use {INTERNAL}',
                )
            ],
        ),
        (
            "apiVersion: modelplane.ai/v1alpha1\nkind: ModelDeploymnt\n",
            [
                (
                    2,
                    "ModelDeploymnt/",
                    "error",
                    'kind: "ModelDeploymnt" is not a kind of modelplane.ai; did you mean ModelDeployment?',
                )
            ],
        ),
        (
            "apiVersion: modelplan.ai/v1alpha1\nkind: ModelCache\n",
            [
                (
                    1,
                    "ModelCache/",
                    "warning",
                    'apiVersion: "modelplan.ai/v1alpha1" has no ModelCache; use modelplane.ai/v1alpha1',
                )
            ],
        ),
    ],
)
def test_what_is_of_no_kind_we_know(text, expected):
    assert told(text) == expected


@pytest.mark.parametrize(
    ("kind", "successor"),
    [
        ("ModelPlacement", "ModelReplica"),
        ("InferenceProvider", "ModelEndpoint"),
        ("CapabilityVocabulary", "InferenceClass"),
    ],
)
def test_a_superseded_kind_names_its_successor(kind, successor):
    ((_, _, severity, line),) = told(f"apiVersion: modelplane.ai/v1alpha1\nkind: {kind}\n")
    assert (severity, line) == ("error", f'kind: "{kind}" is not a kind of modelplane.ai; it is now {successor}')


def test_a_superseded_field_says_what_is_written_instead():
    text = (
        "apiVersion: modelplane.ai/v1alpha1\nkind: ModelDeployment\nmetadata: {name: a}\nspec:\n  replicas: 1\n"
        "  scaling: {}\n  nodeSelector: {devices: [{name: gpu, selectors: [{cel: 'true'}]}]}\n"
        "  workers: {topology: {strategy: TP}, template: {spec: {containers: [{name: engine, image: i}]}}}\n"
    )
    assert [line for _, _, _, line in told(text)] == [
        "spec.scaling: unknown field; set replicas; an autoscaler uses the scale subresource",
        "spec.workers.topology.strategy: unknown field; give the sizes: tensor, pipeline, data and dataLocal",
    ]


@pytest.mark.parametrize(
    ("field", "right"),
    [
        ("nodeSelector: {a: b}", "spec.nodeSelector chooses the pool, and affinity nodes of it"),
        ("nodeName: a", "spec.nodeSelector chooses the pool, and affinity nodes of it"),
        (
            "tolerations: []",
            (
                "leave it out: pods tolerate the taints of their pool's nodes; spec.tolerations is for taints of "
                "clusters and pools"
            ),
        ),
        ("schedulerName: a", "leave it out: spec.scheduling of the InferenceCluster names it"),
        ("priorityClassName: a", "write spec.priority; the InferenceCluster has its class"),
        ("restartPolicy: Always", "leave it out: containers are always restarted"),
        ("resourceClaims: []", "write spec.nodeSelector.devices: claims are made of it"),
    ],
)
def test_a_field_of_a_pod_that_is_not_taken_says_what_is_written_instead(field, right):
    text = (
        "apiVersion: modelplane.ai/v1alpha1\nkind: ModelDeployment\nmetadata: {name: a}\nspec:\n  replicas: 1\n"
        "  nodeSelector: {devices: [{name: gpu, selectors: [{cel: 'true'}]}]}\n"
        f"  workers: {{template: {{spec: {{{field}, containers: [{{name: engine, image: i}}]}}}}}}\n"
    )
    name = field.partition(":")[0]
    assert [line for _, _, _, line in told(text)] == [f"spec.workers.template.spec.{name}: unknown field; {right}"]


def test_an_unknown_kind_of_ours_lists_the_kinds():
    ((_, _, _, line),) = told("apiVersion: modelplane.ai/v1alpha1\nkind: Zzz\n")
    assert all(kind in line for _, kind in definitions())


def test_problems_come_by_line_with_the_spelling_of_the_text():
    text = CLASS.replace("name: gpu", "name: no").replace("  devices:", "  descriptoin: x\n  devices:")
    assert told(text) == [
        (6, "InferenceClass/h100", "error", "spec.descriptoin: unknown field; did you mean description?"),
        (
            8,
            "InferenceClass/h100",
            "error",
            'spec.devices[0].name: is the boolean false; must be a string; write it in quotes, "no"',
        ),
    ]


def test_the_same_object_twice_names_the_first_place():
    twice = "metadata.name: is given twice in this set, first at f:1"
    other = CLASS + "    count: 4\n"
    assert told(f"{CLASS}---\n{other}") == [(14, "InferenceClass/h100", "error", f"{twice}; keep one")]
    same = f"{twice}; both are the same and count once"
    assert told(f"{CLASS}---\n{CLASS}") == [(14, "InferenceClass/h100", "note", same)]


def test_references_and_warnings():
    text = CLASS.replace("name: h100", "name: h100\n  namespace: x") + (
        "---\napiVersion: modelplane.ai/v1alpha1\nkind: InferenceCluster\nmetadata: {name: east}\n"
        "spec:\n  cluster: {source: Existing, existing: {secretRef: {name: east}}}\n"
        "  nodePools:\n  - {name: a, className: h10}\n"
    )
    assert told(text) == [
        (
            5,
            "InferenceClass/h100",
            "warning",
            "metadata.namespace: is ignored: InferenceClass is cluster-scoped; leave it out",
        ),
        (
            18,
            "InferenceCluster/east",
            "error",
            'spec.nodePools[0].className: InferenceClass "h10" is not in this set; did you mean h100?',
        ),
    ]
