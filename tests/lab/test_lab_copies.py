"""Copies in golden files get the data that a host puts in."""

from lab.oracles.copies import with_data


def copy(kind, name, **more):
    metadata = {"name": name, "annotations": {"modelplane.ai/copied-from": "team/x"}}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}


def test_a_copy_has_every_key_that_a_container_refers_to():
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"env": [{"secretKeyRef": {"name": "s", "key": "K"}}, {"configMapKeyRef": {"name": "c", "key": "k"}}]},
    }
    own = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    pull = copy("Secret", "r", type="kubernetes.io/dockerconfigjson")
    found = with_data([pod, copy("Secret", "s", type="Opaque"), copy("ConfigMap", "c"), copy("Secret", "t"), pull, own])
    assert [item.get("data") for item in found] == [
        None,
        {"K": "eA=="},
        {"k": "x"},
        None,
        {".dockerconfigjson": "e30="},
        {"a": "b"},
    ]
