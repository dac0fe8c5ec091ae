"""Where the API is and as whom to speak.

A kubeconfig that is named is used; else the pod's ServiceAccount; else KUBECONFIG, else the file in its usual place.
A kubeconfig that starts programs or plugins for its credentials is refused: reading a file must not run anything.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from modelplane.api.errors import DocumentError
from modelplane.k8s.admission.documents import parse_documents
from modelplane.kube.errors import BadConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightkube.config.kubeconfig import KubeConfig, SingleConfig

ClientConfig: TypeAlias = "SingleConfig"
"""Where an API is and as whom to speak, in the client library's terms."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_config(
    kubeconfig: Path | None = None, context: str | None = None, *, service_account: Path = SERVICE_ACCOUNT
) -> "SingleConfig":
    place = str(kubeconfig) if kubeconfig is not None else "the ServiceAccount, KUBECONFIG or the usual kubeconfig"
    return _chosen(place, context, lambda: _read(kubeconfig, service_account))


def config_of(text: str, place: str) -> "SingleConfig":
    """The same from the text of a kubeconfig; `place` is what errors call it. Files that it names are not read."""

    def read() -> "KubeConfig":
        from lightkube.config.kubeconfig import KubeConfig

        return KubeConfig.from_dict(_document(text, place))

    return _chosen(place, None, read)


def _document(text: str, place: str) -> dict[str, object]:
    found = parse_documents(text.encode(), source=place)
    value = found[0].value if len(found) == 1 else None
    if not isinstance(value, dict):
        raise TypeError("is not one YAML mapping")
    return value


def _chosen(place: str, context: str | None, read: "Callable[[], KubeConfig]") -> "SingleConfig":
    try:
        from lightkube.config.models import User
        from lightkube.core.exceptions import ConfigError
    except ModuleNotFoundError as missing:
        message = f"no Kubernetes client is installed ({missing.name} is missing): install modelplane[kube]"
        raise BadConfig(message) from missing
    try:
        chosen = read().get(context)
    except (ConfigError, DocumentError, OSError, KeyError, TypeError, ValueError, AttributeError) as broken:
        raise BadConfig(f"{place}: {_sentence(broken)}") from broken
    if chosen is None:
        raise BadConfig(f"{place}: names no context")
    user = chosen.user or User()
    if user.exec is not None or user.auth_provider is not None:
        raise BadConfig(f"{place}: user of context {chosen.context_name!r}: exec and auth-provider are refused")
    return chosen._replace(user=user)


def _read(kubeconfig: Path | None, service_account: Path) -> "KubeConfig":
    from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, KubeConfig

    if kubeconfig is None and (service_account / "token").exists():
        return KubeConfig.from_service_account(service_account)
    path = Path(kubeconfig or os.environ.get("KUBECONFIG", DEFAULT_KUBECONFIG)).expanduser()
    return KubeConfig.from_dict(_document(path.read_text(encoding="utf-8"), str(path)), path)


def _sentence(broken: Exception) -> str:
    return f"lacks {broken}" if isinstance(broken, KeyError) else str(broken)
