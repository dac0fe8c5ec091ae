from modelplane.views.named_objects import named_objects

POD = {
    "imagePullSecrets": [{"name": "registry"}],
    "volumes": [{"name": "a", "secret": {"secretName": "files"}}, {"name": "b", "configMap": {"name": "templates"}}],
    "containers": [
        {
            "name": "engine",
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "HF_TOKEN"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "OTHER"}}},
                {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "MODE"}}},
            ],
            "envFrom": [{"secretRef": {"name": "given"}}],
        }
    ],
}
DEPLOYMENT = {
    "kind": "ModelDeployment",
    "metadata": {"name": "a", "namespace": "team"},
    "spec": {"workers": {"template": {"spec": POD}}},
}
GIVEN = {"kind": "Secret", "metadata": {"name": "given", "namespace": "team"}}


def made(kind, name, data, **more):
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data, **more}


def test_what_deployments_name_is_made_up_with_the_keys_that_are_read():
    assert named_objects([DEPLOYMENT, GIVEN]) == (
        made("ConfigMap", "settings", {"MODE": "x"}),
        made("ConfigMap", "templates", {"key": "x"}),
        made("Secret", "files", {"key": "eA=="}),
        made("Secret", "hub", {"HF_TOKEN": "eA==", "OTHER": "eA=="}),
        made("Secret", "registry", {".dockerconfigjson": "eA=="}, type="kubernetes.io/dockerconfigjson"),
    )


def test_nothing_is_made_up_where_nothing_is_named():
    assert named_objects([GIVEN, {**DEPLOYMENT, "spec": {"workers": [None, "x"]}}]) == ()
