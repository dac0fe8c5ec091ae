"""Rights by Crossplane's RBAC manager, and the annex that it runs in."""

import yaml

from lab.annex import Annex
from lab.certificates import new_authority
from lab.client import Access
from lab.cluster import new_cluster
from lab.rights import _deployment, _subjects, chart_roles

TEMPLATE = """\
{{- if .Values.rbacManager.deploy }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ template "crossplane.name" . }}-rbac-manager
  labels:
    app: {{ template "crossplane.name" . }}
    {{- include "crossplane.labels" . | indent 4 }}
rules: [{apiGroups: [""], resources: [events], verbs: [create]}]
{{- end}}
"""


def test_roles_of_the_chart_lose_their_templating(tmp_path):
    folder = tmp_path / "cluster/charts/crossplane/templates"
    folder.mkdir(parents=True)
    (folder / "role.yaml").write_text(TEMPLATE)
    (role,) = chart_roles(tmp_path, "role.yaml")
    assert role["metadata"] == {"name": "crossplane-rbac-manager", "labels": {"app": "crossplane"}}


def test_a_deployment_names_the_account_and_belongs_to_the_revision():
    revision = {"metadata": {"name": "p-1", "uid": "u"}}
    made = _deployment("p", "system", revision)
    assert made["spec"]["template"]["spec"]["serviceAccountName"] == "p"
    assert made["spec"]["replicas"] == 0
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("ProviderRevision", "u")
    assert _subjects({"subjects": [{"name": "p"}]}) == ["p"]
    assert _subjects({}) == []


def test_an_annex_sees_the_api_at_another_address_under_the_same_name(tmp_path):
    annex = Annex(3, 4711)
    cluster = new_cluster("c", 21_000, tmp_path, lambda name: tmp_path / name, host="0.0.0.0")  # noqa: S104 - a value
    access = annex.access(cluster, Access(cluster.server, new_authority("a").pair.certificate, token="t"))
    (found,) = yaml.safe_load(access.kubeconfig())["clusters"]
    assert found["cluster"]["server"] == "https://10.243.3.1:21003"
    assert found["cluster"]["tls-server-name"] == "localhost"
    assert annex.enter(("true",))[-1] == "true"
    assert "4711" in annex.enter(("true",))
    assert "--bind-address=0.0.0.0" in cluster.api_server().command
