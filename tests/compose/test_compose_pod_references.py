"""Which Secrets and ConfigMaps pods name, and how a container names their copies."""

import pytest
from msgspec.structs import replace

from modelplane.api.codec import decode
from modelplane.api.models import EnvFrom
from modelplane.compose.pod_references import PodReference, copy_name, references_of, with_copies


def test_every_way_to_name_an_object_is_found_once(scene):
    assert references_of(scene("gpt-oss-20b").replica) == (
        PodReference("Secret", "registry", pulls_images=True),
        PodReference("ConfigMap", "engine", "log-level"),
        PodReference("Secret", "engine", "api-key"),
        PodReference("ConfigMap", "telemetry", optional=True),
    )
    assert references_of(scene("tensor-8").replica) == ()


def test_a_whole_secret_is_named_by_the_variables_that_come_from_it(scene):
    replica = scene("gpt-oss-20b").replica
    engine = replica.spec.engines[0]
    member = engine.members[0]
    pod = member.template.spec
    container = replace(pod.containers[0], env_from=(decode(EnvFrom, {"secretRef": {"name": "keys"}}),))
    template = replace(member.template, spec=replace(pod, containers=(container,)))
    engine = replace(engine, members=(replace(member, template=template),))
    found = references_of(replace(replica, spec=replace(replica.spec, engines=(engine,))))
    assert PodReference("Secret", "keys") in found
    assert [each for each in found if each.name == "telemetry"] == []


@pytest.mark.parametrize(
    ("written", "made"),
    [
        pytest.param({"name": "engine"}, {"name": "engine"}, id="no variables"),
        pytest.param(
            {"env": [{"name": "A", "value": "b"}, {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
            {"env": [{"name": "A", "value": "b"}, {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
            id="variables that name no object",
        ),
        pytest.param(
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}}]},
            {
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {
                            "secretKeyRef": {"name": copy_name("r", "Secret", "s"), "key": "k", "optional": True}
                        },
                    }
                ]
            },
            id="a key of a Secret",
        ),
        pytest.param(
            {"envFrom": [{"prefix": "P_", "configMapRef": {"name": "s"}}, {"secretRef": {"name": "s"}}]},
            {
                "envFrom": [
                    {"prefix": "P_", "configMapRef": {"name": copy_name("r", "ConfigMap", "s")}},
                    {"secretRef": {"name": copy_name("r", "Secret", "s")}},
                ]
            },
            id="whole objects",
        ),
    ],
)
def test_a_container_names_the_copies(written, made):
    assert with_copies("r", written) == made


def test_a_copy_is_of_one_replica_and_begins_with_the_name_that_the_user_knows():
    names = {copy_name(replica, kind, "hf-token") for replica in ("a", "b") for kind in ("Secret", "ConfigMap")}
    assert len(names) == 4
    assert all(name.startswith("hf-token-") for name in names)
    assert len(copy_name("r" * 51, "Secret", "s" * 253)) <= 63
