"""Where the API is and as whom to speak.

A kubeconfig that is named is used; else the pod's ServiceAccount; else KUBECONFIG, else the file in its usual place.
A kubeconfig that starts programs or plugins for its credentials is refused: reading a file must not run anything.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from modelplane.api.errors import DocumentError
from modelplane.api.outbound import OutboundRule
from modelplane.k8s.admission.documents import parse_documents
from modelplane.kube.errors import BadConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightkube.config.kubeconfig import KubeConfig, SingleConfig

ClientConfig: TypeAlias = "SingleConfig"
"""Where an API is and as whom to speak, in the client library's terms."""
_CLUSTER_REFUSED = ("certificate-authority", "insecure-skip-tls-verify", "proxy-url")
_USER_REFUSED = ("client-certificate", "client-key", "tokenFile", "exec", "auth-provider")
_PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "127.0.0.0/8", "::1/128")
_NAMES = ("localhost", "*.local", "*.internal", "*.svc", "*.lan", "*.corp", "*.intranet", "*.home.arpa")
API_SERVERS = OutboundRule.read((*_PRIVATE, *_NAMES))
"""API servers are in private networks; metadata services and link-local addresses are none."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_config(
    kubeconfig: Path | None = None, context: str | None = None, *, service_account: Path = SERVICE_ACCOUNT
) -> "SingleConfig":
    place = str(kubeconfig) if kubeconfig is not None else "the ServiceAccount, KUBECONFIG or the usual kubeconfig"
    return _chosen(place, context, lambda: _read(kubeconfig, service_account))


def config_of(text: str, place: str, *, insecure: bool = False) -> "SingleConfig":
    """The same from the text of a kubeconfig that somebody else wrote; `place` is what errors call it.

    It is refused where it names files, a proxy, an address of a metadata service, or an API without verified TLS, which
    `insecure` allows.
    """

    def read() -> "KubeConfig":
        from lightkube.config.kubeconfig import KubeConfig

        document = _document(text, place)
        _refuse_unsafe(document, insecure=insecure)
        return KubeConfig.from_dict(document)

    return _chosen(place, None, read)


def _document(text: str, place: str) -> dict[str, object]:
    found = parse_documents(text.encode(), source=place)
    value = found[0].value if len(found) == 1 else None
    if not isinstance(value, dict):
        raise TypeError("is not one YAML mapping")
    return value


def _refuse_unsafe(document: Mapping[str, object], *, insecure: bool) -> None:
    for section, part, refused in (("clusters", "cluster", _CLUSTER_REFUSED), ("users", "user", _USER_REFUSED)):
        for at, entry in enumerate(_list(document.get(section))):
            found = _mapping(_mapping(entry).get(part))
            allowed = ("insecure-skip-tls-verify",) if insecure else ()
            named = next((field for field in refused if found.get(field) and field not in allowed), None)
            if named is not None:
                raise ValueError(f"{section}[{at}].{part}.{named} is refused in a kubeconfig from a Secret")
            if part == "cluster":
                schemes = ("https", "http") if insecure else ("https",)
                _refuse_server(f"{section}[{at}].{part}.server", str(found.get("server", "")), schemes)


def _refuse_server(field: str, url: str, schemes: Sequence[str]) -> None:
    try:
        found = urlsplit(url)
        host = found.hostname or ""
    except ValueError:
        raise ValueError(f"{field}: {url!r} is not a URL") from None
    if found.scheme not in schemes or not host or found.username is not None:
        raise ValueError(f"{field}: {url!r} is not an {schemes[0]} URL of a host")
    refusal = API_SERVERS.refuse_host(host)
    if refusal is not None:
        raise ValueError(f"{field}: {refusal}")


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


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
