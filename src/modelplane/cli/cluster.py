"""`modelplane cluster`: what a cluster lacks, how it would be declared, and its adoption."""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.k8s.admission.decode import escape

if TYPE_CHECKING:
    from modelplane.api.objects import Json, Manifest
    from modelplane.kube import KubeClient
    from modelplane.views.cluster_review import ClusterInventory, Finding, ProposedPool

_EPILOG = """\
examples:
  modelplane cluster check --kubeconfig east.yaml                  what the cluster lacks
  modelplane cluster check --kubeconfig east.yaml -f cluster.yaml  the same for what an InferenceCluster declares
  modelplane cluster role | kubectl --kubeconfig admin.yaml apply -f -     the rights that Modelplane needs
  modelplane cluster add east --kubeconfig east.yaml               print the manifests
  modelplane cluster add east --kubeconfig east.yaml --apply       label nodes, store the kubeconfig, apply
  modelplane cluster add east --kubeconfig admin.yaml --restrict --apply
                                                                   the same; stored are the rights that are needed

  modelplane cluster add east --kubeconfig admin.yaml --agent https://hub.example.org:8443 --image IMAGE --apply
                                                                   the cluster dials; nothing of it is stored

The kubeconfig is read as the control plane reads it: one that names files or programs, or does not verify TLS, is
refused. The exit code of a check is 1 where something is missing. docs/operations/requirements.md has what is needed.
"""
_NOT_SERVED = 404


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Looks at a cluster that exists: what it lacks, which pools it has, and how it is adopted."
    parser.epilog = _EPILOG
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    checking = verbs.add_parser("check", help="what the cluster lacks")
    checking.add_argument("-f", "--filename", type=Path, help="its InferenceCluster")
    adding = verbs.add_parser("add", help="propose its manifests, and apply them")
    adding.add_argument("name", help="name of the InferenceCluster")
    adding.add_argument(
        "--apply", action="store_true", help="label nodes, store the kubeconfig and apply the manifests"
    )
    adding.add_argument(
        "--restrict",
        action="store_true",
        help="apply the role on the cluster too, and store its ServiceAccount's token in the place of this kubeconfig",
    )
    adding.add_argument(
        "--agent",
        default="",
        metavar="HUB",
        help="run an agent on the cluster, which dials the hub at this https address; no credential of it is stored",
    )
    adding.add_argument("--image", default="", help="the agent's image, for --agent")
    adding.add_argument("--force", action="store_true", help="apply although the cluster lacks something")
    adding.add_argument("--control-kubeconfig", type=Path, help="the control plane (default: as kubectl finds it)")
    for verb in (checking, adding):
        verb.add_argument("--kubeconfig", type=Path, required=True, help="of the cluster")
        verb.add_argument("--allow-insecure", action="store_true", help="accept http and TLS that is not verified")
    role = verbs.add_parser("role", help="print the rights that its kubeconfig needs")
    role.add_argument("--account", default="modelplane", help="name of the ServiceAccount")


def run(arguments: argparse.Namespace) -> int:
    import asyncio

    if arguments.verb == "role":
        return _print_role(arguments.account)
    if arguments.verb == "add" and arguments.agent:
        _check_agent(arguments)
    text = _read(arguments.kubeconfig)
    return asyncio.run(_check(text, arguments) if arguments.verb == "check" else _add(text, arguments))


def _check_agent(arguments: argparse.Namespace) -> None:
    if not arguments.agent.startswith("https://"):
        raise InputError(f"--agent {arguments.agent!r}: is no https:// address of a hub")
    if not arguments.image:
        raise InputError("--agent needs --image, such as registry.example.org/team/modelplane-agent:v0.2.0")
    if arguments.restrict:
        raise InputError("--agent and --restrict exclude each other: with an agent no kubeconfig is stored")


def _print_role(account: str) -> int:
    from modelplane.k8s.yaml import to_yaml_documents
    from modelplane.views.workload_rights import workload_role

    sys.stdout.write(to_yaml_documents(workload_role(account)))
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error.strerror if isinstance(error, OSError) else 'is not text'}") from None


async def _check(text: str, arguments: argparse.Namespace) -> int:
    from modelplane.views.cluster_review import review_cluster

    declared = _declared(arguments.filename)
    client = _client(text, arguments)
    try:
        findings = review_cluster(await inventory(client), declared)
    finally:
        await client.close()
    return _show(findings)


def _declared(path: Path | None) -> "Manifest | None":
    from modelplane.k8s.admission.documents import parse_documents

    if path is None:
        return None
    documents = parse_documents(_read(path).encode(), source=str(path))
    found = [document.value for document in documents if isinstance(document.value, dict)]
    clusters = [value for value in found if value.get("kind") == "InferenceCluster"]
    if len(clusters) != 1:
        raise InputError(f"{path}: {len(clusters)} InferenceClusters; one is needed")
    return clusters[0]


def _client(text: str, arguments: argparse.Namespace) -> "KubeClient":
    from modelplane.kube import API_SERVERS, BadConfig, KubeClient, config_of

    try:
        config = config_of(text, str(arguments.kubeconfig), insecure=arguments.allow_insecure)
        return KubeClient(config, outbound=API_SERVERS)
    except BadConfig as refused:
        raise InputError(str(refused)) from None


async def inventory(client: "KubeClient") -> "ClusterInventory":
    """What there is on a cluster. A kind that is not served has no objects; one that may not be read is unknown."""
    from modelplane.kube import GroupVersionResource, KubeError, KubeStatusError, Query
    from modelplane.views.cluster_review import ClusterInventory

    async def listed(group: str, plural: str) -> "tuple[Json, ...] | None":
        try:
            return await client.list_all(Query(GroupVersionResource(group, "v1", plural)))
        except KubeStatusError as refused:
            return () if refused.status == _NOT_SERVED else None

    try:
        version = await client.version()
        signs = {
            "APIService": await listed("apiregistration.k8s.io", "apiservices"),
            "DeviceClass": await listed("resource.k8s.io", "deviceclasses"),
            "GatewayClass": await listed("gateway.networking.k8s.io", "gatewayclasses"),
        }
        nodes, slices = await listed("", "nodes"), await listed("resource.k8s.io", "resourceslices")
    except KubeError as error:
        raise InputError(f"the cluster does not answer: {error}") from None
    names = {kind: None if items is None else frozenset(map(_name, items)) for kind, items in signs.items()}
    return ClusterInventory(version, nodes or (), slices, names)


def _name(item: "Json") -> str:
    from modelplane.api.objects import name_of

    return name_of(item)


def _show(findings: "tuple[Finding, ...]") -> int:
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        mark, why = ("not ok", f": {finding.fault}") if finding.fault else ("ok", "")
        print(escape(f"{mark:8}{finding.what.ljust(width)}  {finding.found}{why}"))
    wrong = sum(bool(finding.fault) for finding in findings)
    print(f"{wrong} of {len(findings)} requirements are not met" if wrong else "all requirements are met")
    return 1 if wrong else 0


async def _add(text: str, arguments: argparse.Namespace) -> int:
    from modelplane.views.cluster_review import propose_pools, proposed_cluster, review_cluster

    client = _client(text, arguments)
    try:
        found = await inventory(client)
        pools = propose_pools(found)
        secret = f"{arguments.name}-kubeconfig"
        declared = proposed_cluster(arguments.name, secret, pools, agent=bool(arguments.agent))
        manifests = [*(pool.inference_class() for pool in pools), declared]
        if not arguments.apply:
            return _print_proposal(manifests, secret, arguments.kubeconfig)
        findings = review_cluster(found)
        _show(findings)
        if not arguments.force and any(finding.fault and not finding.is_label for finding in findings):
            raise InputError("nothing was changed; install what is missing, or give --force")
        await _label(client, pools)
    finally:
        await client.close()
    if arguments.agent:
        from modelplane.cli._agent_cluster import enrol

        return _apply([*enrol(arguments, secret, _apply), *manifests], arguments.control_kubeconfig)
    if arguments.restrict:
        text = await _restricted(text, arguments)
    stored = _secret(secret, text, insecure=arguments.allow_insecure)
    return _apply([stored, *manifests], arguments.control_kubeconfig)


async def _restricted(text: str, arguments: argparse.Namespace) -> str:
    from modelplane.cli._restricted import ACCOUNT, restricted_kubeconfig
    from modelplane.kube import config_of
    from modelplane.views.workload_rights import workload_role

    if _apply(list(workload_role(ACCOUNT)), arguments.kubeconfig):
        raise InputError("the role could not be applied on the cluster; nothing was stored")
    client = _client(text, arguments)
    try:
        config = config_of(text, str(arguments.kubeconfig), insecure=arguments.allow_insecure)
        return await restricted_kubeconfig(client, config, arguments.name)
    finally:
        await client.close()


def _print_proposal(manifests: "list[Json]", secret: str, path: Path) -> int:
    from modelplane.k8s.yaml import to_yaml_documents

    sys.stdout.write(to_yaml_documents(manifests))
    print(
        f"# before: kubectl -n modelplane-system create secret generic {secret} --from-file=kubeconfig={path}\n"
        "# --apply does that, labels the nodes of each pool and applies the manifests.",
    )
    return 0


async def _label(client: "KubeClient", pools: "tuple[ProposedPool, ...]") -> None:
    from modelplane.api.labels import POOL
    from modelplane.kube import GroupVersionResource, KubeError

    nodes = GroupVersionResource("", "v1", "nodes")
    for pool in pools:
        for node in pool.unlabelled:
            try:
                await client.label(nodes, node, {POOL: pool.name})
            except KubeError as refused:
                raise InputError(f"node {node} cannot be labelled: {refused}") from None
            print(f"node/{node} labelled {POOL}={pool.name}")


def _secret(name: str, text: str, *, insecure: bool) -> "Json":
    from modelplane.api.labels import ALLOW_INSECURE, SYSTEM_NAMESPACE
    from modelplane.api.objects import manifest, with_metadata

    made = manifest("v1", "Secret", name, namespace=SYSTEM_NAMESPACE, stringData={"kubeconfig": text})
    return with_metadata(made, annotations={ALLOW_INSECURE: "true"}) if insecure else made


def _apply(manifests: "list[Json]", kubeconfig: Path | None) -> int:
    """By kubectl, with the credentials that people have. The kubeconfig of the cluster goes through its input alone."""
    from modelplane.k8s.yaml import to_yaml_documents

    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise InputError("kubectl is not on this machine; without --apply the manifests are printed")
    chosen = [f"--kubeconfig={kubeconfig}"] if kubeconfig is not None else []
    command = [kubectl, *chosen, "apply", "--server-side", "--field-manager=modelplane-cluster-add", "-f", "-"]
    text = to_yaml_documents(manifests)
    return subprocess.run(command, input=text, text=True, check=False).returncode  # noqa: S603  the user's own kubectl
