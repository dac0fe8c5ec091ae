"""Crossplane's RBAC manager: it derives from definitions and packages what Crossplane and providers may do.

It has no flag for its metrics port and wants the one that provider-kubernetes has, so it lives in an annex. Its roles
are the chart's own. A provider's rights are bound to the ServiceAccount of the Deployment that its revision owns; with
the external package runtime nobody makes that, so the lab does. Nothing runs it: the provider is a process here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.annex import open_annex
from lab.client import Api, Manifest, name_of, text, until
from lab.cluster import answers
from lab.components import CROSSPLANE
from lab.manifests import parse
from lab.supervisor import Program
from lab.workload import binding

if TYPE_CHECKING:
    from pathlib import Path

    from lab.client import Access
    from lab.cluster import Cluster
    from lab.manifests import Sources
    from lab.supervisor import Supervisor

ACCOUNT = "rbac-manager"
_TEMPLATES = "cluster/charts/crossplane/templates"
_FILES = (
    "rbac-manager-clusterrole.yaml",
    "rbac-manager-managed-clusterroles.yaml",
    "rbac-manager-allowed-provider-permissions.yaml",
)
_ALLOWED = "crossplane:allowed-provider-permissions"
_ANNEX = 1
_METRICS_PORT = 8080


def chart_roles(source: Path, file: str) -> list[Manifest]:
    """The chart's ClusterRoles with its templating taken out: the lines that decide on options, and the name."""
    template = (source / _TEMPLATES / file).read_text().replace('{{ template "crossplane.name" . }}', "crossplane")
    return parse("\n".join(line for line in template.splitlines() if "{{" not in line))


def service_account(name: str, namespace: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


async def prepare(api: Api, sources: Sources, namespace: str) -> None:
    """Who the manager is, and what it may do."""
    await api.apply(service_account(ACCOUNT, namespace))
    await api.apply_all(role for file in _FILES for role in chart_roles(sources.folder(CROSSPLANE), file))
    await api.apply(
        binding("crossplane-rbac-manager", {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace})
    )


async def start(supervisor: Supervisor, cluster: Cluster, access: Access) -> None:
    """Returns when it serves; `access` is its own."""
    annex = await open_annex(supervisor, ACCOUNT, _ANNEX)
    kubeconfig = cluster.write_kubeconfig(ACCOUNT, annex.access(cluster, access))
    command = (str(cluster.binary("crossplane")), "rbac", "start", f"--provider-clusterrole={_ALLOWED}")
    probe = answers(f"http://{annex.inside}:{_METRICS_PORT}/metrics")
    program = Program("crossplane-rbac-manager", annex.enter(command), probe, {"KUBECONFIG": str(kubeconfig)})
    await supervisor.start(program)


async def own_account(api: Api, provider: str, namespace: str) -> None:
    """A ServiceAccount for a provider; returns when the manager has bound the provider's rights to it."""
    await api.apply(service_account(provider, namespace))
    revisions = await api.list(
        "pkg.crossplane.io/v1", "ProviderRevision", labels=f"pkg.crossplane.io/package={provider}"
    )
    for revision in revisions:
        await api.apply(_deployment(provider, namespace, revision))
    await until(f"rights of {provider}", lambda: _bound(api, provider))


async def _bound(api: Api, account: str) -> bool:
    bindings = await api.list("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")
    subjects = [
        subject for each in bindings if name_of(each).startswith("crossplane:provider:") for subject in _subjects(each)
    ]
    return account in subjects


def _subjects(found: Manifest) -> list[str]:
    subjects = found.get("subjects")
    return [text(each, "name") for each in subjects] if isinstance(subjects, list) else []


def _deployment(name: str, namespace: str, revision: Manifest) -> Manifest:
    owner = {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "ProviderRevision",
        "name": name_of(revision),
        "uid": text(revision, "metadata", "uid"),
        "controller": True,
    }
    labels = {"pkg.crossplane.io/provider": name}
    pod = {"serviceAccountName": name, "containers": [{"name": "package-runtime", "image": name}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
