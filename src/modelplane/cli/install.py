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
    parser.add_argument("--version", default="", help="version of the packages (default: that of this program)")
    parser.add_argument("--helm", action="store_true", help="install provider-helm too")
    parser.add_argument(
        "--observe",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="watch nodes, queues and pods of clusters, which reads their kubeconfig Secrets (default: it does)",
    )
    parser.add_argument("--pull-secret", default="", metavar="NAME", help="Secret in crossplane-system to pull with")
    parser.add_argument("--dry-run", action="store_true", help="print the objects and apply nothing")
    parser.add_argument("--kubeconfig", default=None, help="which cluster (default: as kubectl finds it)")
    parser.add_argument("--context", default=None, help="context of the kubeconfig")


def run(arguments: argparse.Namespace) -> int:
    from modelplane.api.version import __version__
    from modelplane.crossplane.packaging import PackageSource, installation
    from modelplane.k8s.yaml import to_yaml_documents

    for option in ("packages", "providers"):
        repository = getattr(arguments, option)
        if "." not in repository.partition("/")[0] and ":" not in repository.partition("/")[0]:
            raise InputError(f"--{option} {repository!r}: Crossplane wants the registry's host first, host/path")
    source = PackageSource(
        packages=arguments.packages.rstrip("/"),
        providers=arguments.providers.rstrip("/"),
        version=arguments.version.removeprefix("v") or __version__,
        helm=arguments.helm,
        observe=arguments.observe,
        pull_secret=arguments.pull_secret,
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
