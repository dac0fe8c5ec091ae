"""`modelplane install`: put Modelplane on a control plane that runs Crossplane."""

import argparse
import shutil
import subprocess

from modelplane.api.errors import InputError

_EPILOG = """\
examples:
  modelplane install --packages registry.example.org/team --providers registry.example.org/crossplane-contrib --dry-run
  modelplane install --packages … --providers … --dry-run | kubectl apply --server-side -f -
  modelplane install --packages … --providers …          apply it with the current kubeconfig

Nothing that is on the cluster already is removed. `make package` builds the packages to push.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Applies everything that Modelplane needs beside Crossplane itself: the system's namespace, roles, providers, "
        "the function with what runs it, and the configuration with every kind."
    )
    parser.epilog = _EPILOG
    parser.add_argument("--packages", required=True, metavar="REPOSITORY", help="where our packages were pushed")
    parser.add_argument("--providers", required=True, metavar="REPOSITORY", help="where provider-kubernetes is")
    parser.add_argument(
        "--images",
        default="",
        metavar="REPOSITORY",
        help="where the images that clusters run were pushed (default: as --packages)",
    )
    parser.add_argument("--version", default="", help="version of the packages (default: that of this program)")
    parser.add_argument("--helm", action="store_true", help="install provider-helm too, for the software of clusters")
    parser.add_argument(
        "--cloud",
        action="append",
        default=[],
        metavar="SOURCE",
        help="install the providers that make clusters of this source, such as GKE, and provider-helm; may be repeated",
    )
    parser.add_argument(
        "--observe",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="watch nodes, queues and pods of clusters, which reads their kubeconfig Secrets (default: it does)",
    )
    parser.add_argument(
        "--traffic-metrics",
        action="append",
        default=[],
        metavar="URL",
        help="metrics of routers or gateways, which canaries are judged by; may be given again",
    )
    parser.add_argument(
        "--monitors", action="store_true", help="PodMonitors too, for a control plane with the Prometheus Operator"
    )
    parser.add_argument(
        "--gateway",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="the fleet's GatewayClass and its settings, for Envoy Gateway (default: they are installed)",
    )
    parser.add_argument(
        "--hub", default="", metavar="HOST", help="install the hub, which agents of workload clusters dial at this name"
    )
    parser.add_argument(
        "--dashboard",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="the dashboard, which reads, behind the token of a Secret (default: it is installed)",
    )
    parser.add_argument(
        "--pull-secret",
        default="",
        metavar="NAME",
        help="Secret to pull with, in crossplane-system and for hub and dashboard in modelplane-system",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the objects and apply nothing")
    parser.add_argument("--kubeconfig", default=None, help="which cluster (default: as kubectl finds it)")
    parser.add_argument("--context", default=None, help="context of the kubeconfig")


def run(arguments: argparse.Namespace) -> int:
    from modelplane.api.version import __version__
    from modelplane.compose.clouds import CLOUDS
    from modelplane.crossplane.packaging import PackageSource, installation
    from modelplane.k8s.yaml import to_yaml_documents

    for option in ("packages", "providers"):
        repository = getattr(arguments, option)
        if "." not in repository.partition("/")[0] and ":" not in repository.partition("/")[0]:
            raise InputError(f"--{option} {repository!r}: Crossplane wants the registry's host first, host/path")
    unknown = [name for name in arguments.cloud if name not in CLOUDS]
    if unknown:
        raise InputError(f"--cloud {unknown[0]}: there are {', '.join(CLOUDS)}")
    source = PackageSource(
        packages=arguments.packages.rstrip("/"),
        providers=arguments.providers.rstrip("/"),
        version=arguments.version.removeprefix("v") or __version__,
        helm=arguments.helm or bool(arguments.cloud),
        clouds=tuple(dict.fromkeys(arguments.cloud)),
        observe=arguments.observe,
        traffic_metrics=tuple(arguments.traffic_metrics),
        pull_secret=arguments.pull_secret,
        images=arguments.images.rstrip("/"),
        monitors=arguments.monitors,
        gateway=arguments.gateway,
        hub=arguments.hub,
        dashboard=arguments.dashboard,
    )
    text = to_yaml_documents(installation(source))
    if arguments.dry_run:
        print(text, end="")
        return 0
    return _apply(text, arguments)


def _apply(text: str, arguments: argparse.Namespace) -> int:
    """By kubectl: it knows the credentials that people have, and says what changed in words that they know."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise InputError("kubectl is not on this machine; --dry-run prints the objects for whatever applies them")
    chosen = [f"--{name}={value}" for name in ("kubeconfig", "context") if (value := getattr(arguments, name))]
    command = [kubectl, *chosen, "apply", "--server-side", "--field-manager=modelplane-install", "-f", "-"]
    return subprocess.run(command, input=text, text=True, check=False).returncode  # noqa: S603  the user's own kubectl
