from dataclasses import replace

import pytest

from modelplane.k8s.admission.references import Name, ReferencedObject, Severity, check_references


def cluster(*classes: str) -> ReferencedObject:
    pools = [{"name": f"p{index}", "className": name} for index, name in enumerate(classes)]
    return ReferencedObject(Name("InferenceCluster", "", "east"), {"spec": {"nodePools": pools}})


def hardware(name: str) -> ReferencedObject:
    return ReferencedObject(Name("InferenceClass", "", name), {"spec": {}})


def cache(name: str, namespace: str = "ml") -> ReferencedObject:
    return ReferencedObject(Name("ModelCache", namespace, name), {"spec": {}})


def deployment(name: str = "qwen", *, is_valid: bool = True, **spec: object) -> ReferencedObject:
    return ReferencedObject(Name("ModelDeployment", "ml", name), {"spec": spec}, is_valid)


def endpoint(namespace: str = "ml", **labels: str) -> ReferencedObject:
    return ReferencedObject(Name("ModelEndpoint", namespace, "external"), {"metadata": {"labels": labels}})


def service(*selectors: dict[str, object]) -> ReferencedObject:
    groups = [{"selector": selector} for selector in selectors]
    return ReferencedObject(Name("ModelService", "ml", "chat"), {"spec": {"endpoints": groups}})


def told(*members: ReferencedObject) -> list[tuple[int, str, str]]:
    return [(each.member, each.severity.value, str(each.problem)) for each in check_references(members)]


ADD = "add it, or make sure that it exists"
WHERE = "spec.nodePools[0].className"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([cluster("h100"), hardware("h100")], []),
        ([cluster()], []),
        ([cluster("h100")], [(0, "warning", f'{WHERE}: InferenceClass "h100" is not in this set; {ADD}')]),
        (
            [hardware("h100-8x"), cluster("h100-8")],
            [(1, "error", f'{WHERE}: InferenceClass "h100-8" is not in this set; did you mean h100-8x?')],
        ),
        (
            [cluster("zzz", "h100"), hardware("h100")],
            [(0, "error", f'{WHERE}: InferenceClass "zzz" is not in this set; {ADD}')],
        ),
    ],
)
def test_classes_of_pools(members, expected):
    assert told(*members) == expected


def test_caches_of_deployments_are_of_the_same_namespace():
    old_style = {"spec": {"modelCacheRef": {"name": "weights"}}}
    assert told(deployment(caches=[{"name": "weights"}]), cache("weights")) == []
    assert told(deployment(template=old_style), cache("weights")) == []
    line = 'ModelCache "weights" is not in this set in namespace ml'
    assert told(deployment(caches=[{"name": "weights"}]), cache("weights", "other")) == [
        (0, "warning", f"spec.caches[0].name: {line}; {ADD}")
    ]
    assert told(deployment(template=old_style), cache("weigths")) == [
        (0, "error", f"spec.template.spec.modelCacheRef.name: {line}; did you mean weigths?")
    ]


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({"matchLabels": {"app": "qwen"}}, True),
        ({"matchLabels": {"app": "qwen", "tier": "gold"}}, True),
        ({"matchLabels": {"modelplane.ai/deployment": "qwen"}}, True),
        ({"matchLabels": {"modelplane.ai/deployment": "other"}}, False),
        ({"matchLabels": {"app": "qwen", "modelplane.ai/cluster": "east"}}, True),
        ({"matchLabels": {"app": "qwen", "vendor": "acme"}}, False),
        ({"matchLabels": {"vendor": "acme"}}, True),
        ({"matchLabels": {"elsewhere": "yes"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "qwen"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "absent", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "modelplane.ai/cluster", "operator": "In", "values": ["x"]}]}, True),
    ],
)
def test_selectors_of_services(selector, matches):
    members = [
        service(selector),
        deployment(labels={"app": "qwen"}, template={"metadata": {"labels": {"tier": "gold"}}}),
        endpoint(vendor="acme"),
        endpoint("other", elsewhere="yes"),
        cache("weights"),
    ]
    line = (
        "spec.endpoints[0].selector: matches no endpoint in namespace ml of this set; compare it with the labels of "
        "deployments, endpoints and placements, or make sure that they exist"
    )
    assert told(*members) == ([] if matches else [(0, "warning", line)])


@pytest.mark.parametrize(
    ("labels", "clusters", "matches"),
    [
        ({"app": "qwen", "region": "eu"}, [{"region": "us"}, {"region": "eu"}], True),
        ({"region": "eu"}, [{"region": "eu"}], True),
        ({"app": "qwen", "region": "eu"}, [{"region": "us"}, {}], False),
        ({"app": "qwen", "region": "eu", "zone": "a"}, [{"region": "eu"}, {"zone": "a"}], False),
        ({"app": "qwen"}, [{"app": "llama"}], True),
        ({"app": "llama"}, [{"app": "llama"}], False),
        ({"app": "qwen", "region": "eu"}, [], True),
        ({"app": "llama", "region": "eu"}, [], False),
        ({"region": "eu"}, [], False),
    ],
    ids=str,
)
def test_clusters_put_labels_on_endpoints(labels, clusters, matches):
    placed = [
        ReferencedObject(
            Name("InferenceCluster", "", f"c{number}"), {"spec": {"placement": {"metadata": {"labels": given}}}}
        )
        for number, given in enumerate(clusters)
    ]
    found = told(service({"matchLabels": labels}), deployment(labels={"app": "qwen"}), *placed)
    assert [severity for _, severity, _ in found] == ([] if matches else ["warning"])


def test_an_invalid_member_can_be_named_and_is_left_alone():
    broken = deployment(is_valid=False, labels={"app": "qwen", "bad": 1}, caches="nonsense")
    assert told(broken, service({"matchLabels": {"app": "qwen"}})) == []


def test_the_same_name_twice():
    other = replace(cache("a"), value={"spec": {"other": True}})
    broken = replace(cache("a"), is_valid=False)
    remarks = check_references([cache("a"), cache("a", "other"), hardware("a"), cache("a"), other, broken])
    assert [(each.member, each.other, each.severity) for each in remarks] == [
        (3, 0, Severity.NOTE),
        (4, 0, Severity.ERROR),
        (5, 0, Severity.ERROR),
    ]
    same, different = "both are the same and count once", "keep one"
    assert [str(each.problem) for each in remarks] == [
        f"metadata.name: is given twice in this set; {right}" for right in (same, different, different)
    ]


def test_generated_names_do_not_clash():
    assert told(cache(""), cache("")) == []


def secret(name: str, namespace: str = "default") -> Name:
    return Name("Secret", namespace, name)


@pytest.mark.parametrize(
    ("named", "others", "path"),
    [
        ({"env": [{"valueFrom": {"secretKeyRef": {"name": "hf"}}}]}, [], "env[0].valueFrom.secretKeyRef.name"),
        ({"envFrom": [{"secretRef": {"name": "hf"}}]}, [secret("other")], "envFrom[0].secretRef.name"),
        ({"imagePullSecrets": [{"name": "hf"}]}, [secret("hf", "elsewhere")], "imagePullSecrets[0].name"),
        ({"imagePullSecrets": [{"name": "hf"}]}, [secret("hf")], None),
        ({"env": [{"valueFrom": {"secretKeyRef": {"name": "hf", "optional": True}}}]}, [], None),
    ],
)
def test_secrets_that_are_not_in_the_set(named, others, path):
    member = ReferencedObject(Name("ModelDeployment", "default", "a"), {"spec": named})
    found = [(each.severity, str(each.problem)) for each in check_references([member], others)]
    line = f'spec.{path}: Secret "hf" is not in this set in namespace default; {ADD}'
    assert found == ([(Severity.WARNING, line)] if path else [])


def test_a_secret_is_told_once_and_with_the_nearest_name():
    names = [{"valueFrom": {"secretKeyRef": {"name": "hf-tokn"}}}] * 2
    member = ReferencedObject(Name("ModelDeployment", "default", "a"), {"spec": {"env": names}})
    (found,) = check_references([member], [secret("hf-token")])
    assert found.problem.right == "did you mean hf-token?"
