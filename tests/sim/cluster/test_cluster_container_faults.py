"""Why containers cannot be created, in the kubelet's words."""

import pytest

from modelplane.api.objects import manifest
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster.container_faults import (
    ContainerFault,
    config_faults,
    image_faults,
    missing_pull_secrets,
    mount_faults,
    referenced,
)
from modelplane.sim.cluster.images import rules_of

OBJECTS = [
    {**manifest("v1", "Secret", "token", namespace="team"), "data": {"HF_TOKEN": "eA=="}},
    {**manifest("v1", "Secret", "key", namespace="team"), "type": "kubernetes.io/dockerconfigjson"},
    {**manifest("v1", "ConfigMap", "settings", namespace="team"), "data": {"MODE": "x"}},
]


class Objects:
    def __init__(self, *items):
        self._items = {ref_of(item): item for item in items}

    def get(self, ref):
        return self._items.get(ref)


STORE = Objects(*OBJECTS)


def pod(spec=(), **container):
    engine = {"name": "engine", "image": "vllm/vllm-openai:v1", **container}
    return {"metadata": {"name": "p", "namespace": "team"}, "spec": {"containers": [engine], **dict(spec)}}


def from_key(field, name, key, **more):
    return {"env": [{"name": "X", "valueFrom": {field: {"name": name, "key": key, **more}}}]}


@pytest.mark.parametrize(
    ("container", "message"),
    [
        (from_key("secretKeyRef", "token", "HF_TOKEN"), None),
        (from_key("secretKeyRef", "nosuch", "HF_TOKEN"), 'secret "nosuch" not found'),
        (from_key("secretKeyRef", "token", "OTHER"), "couldn't find key OTHER in Secret team/token"),
        (from_key("secretKeyRef", "nosuch", "K", optional=True), None),
        (from_key("configMapKeyRef", "settings", "MODE"), None),
        (from_key("configMapKeyRef", "nosuch", "MODE"), 'configmap "nosuch" not found'),
        (from_key("configMapKeyRef", "settings", "K"), "couldn't find key K in ConfigMap team/settings"),
        ({"envFrom": [{"secretRef": {"name": "token"}}]}, None),
        ({"envFrom": [{"secretRef": {"name": "nosuch"}}]}, 'secret "nosuch" not found'),
        ({"envFrom": [{"configMapRef": {"name": "nosuch", "optional": True}}]}, None),
        ({"env": [{"name": "A", "value": "b"}, {"name": "IP", "valueFrom": {"fieldRef": {}}}]}, None),
    ],
)
def test_variables(container, message):
    expected = (ContainerFault("engine", "CreateContainerConfigError", message),) if message else ()
    assert config_faults(pod(**container), STORE) == expected


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"secret": {"secretName": "token"}}, None),
        ({"secret": {"secretName": "nosuch", "optional": True}}, None),
        ({"secret": {"secretName": "nosuch"}}, 'secret "nosuch" not found'),
        ({"configMap": {"name": "nosuch"}}, 'configmap "nosuch" not found'),
        ({"emptyDir": {}}, None),
    ],
)
def test_volumes(volume, message):
    failed = f'MountVolume.SetUp failed for volume "v" : {message}'
    expected = (ContainerFault("", "ContainerCreating", failed),) if message else ()
    assert mount_faults(pod({"volumes": [{"name": "v", **volume}]}), STORE) == expected


def test_images_are_judged_for_each_container():
    side = {"name": "side", "image": "nosuch/side:1"}
    made = pod()
    made["spec"]["containers"].append(side)
    (fault,) = image_faults(made, STORE, ())
    assert (fault.container, fault.reason, fault.image) == ("side", "ErrImagePull", "nosuch/side:1")
    assert fault.is_pull


def test_an_init_container_that_cannot_be_created_is_named():
    tune = {"name": "tune", "image": "nosuch/tune:1", "env": from_key("secretKeyRef", "nosuch", "K")["env"]}
    made = pod({"initContainers": [tune]})
    (image,), (setting,) = image_faults(made, STORE, ()), config_faults(made, STORE)
    assert (image.container, image.init, image.image) == ("", "tune", "nosuch/tune:1")
    assert setting == ContainerFault("", "CreateContainerConfigError", 'secret "nosuch" not found', init="tune")


@pytest.mark.parametrize(
    ("secrets", "refused", "missing"),
    [([], True, ()), (["nosuch"], True, ("nosuch",)), (["token"], True, ()), (["nosuch", "key"], False, ("nosuch",))],
)
def test_a_private_image_is_pulled_with_a_pull_secret_that_exists(secrets, refused, missing):
    named = {"imagePullSecrets": [{"name": name} for name in secrets]}
    rules = rules_of("vllm/vllm-openai=key")
    assert bool(image_faults(pod(named), STORE, rules)) is refused
    assert missing_pull_secrets(pod(named), STORE) == missing


def test_what_a_pod_refers_to():
    spec = {
        "imagePullSecrets": [{"name": "key"}],
        "volumes": [{"name": "v", "secret": {"secretName": "s"}}, {"name": "c", "configMap": {"name": "m"}}],
    }
    made = pod(spec, envFrom=[{"secretRef": {"name": "token"}}])
    assert referenced(made) == {("Secret", "key"), ("Secret", "s"), ("ConfigMap", "m"), ("Secret", "token")}
