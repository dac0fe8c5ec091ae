"""HTTP for the loader: addresses are checked and pinned, redirects keep credentials at home, bodies go into buffers.

The standard library's client reads a body straight into a buffer, which is all that a transfer needs. The address that
the outbound rule has checked is the one that is connected to, so a name cannot be resolved a second time to another.
Behind a proxy the proxy resolves; then names are checked, and what they resolve to here.
"""

import base64
import functools
import http.client
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import SplitResult, unquote, urljoin, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from modelplane.api.outbound import OutboundRule
from modelplane.api.reasons import Reason
from modelplane.api.version import __version__
from modelplane.hydrate.errors import HydrateError, SourceInvalidError, TryAgainError, refusal_reason

Headers: TypeAlias = Mapping[str, str]

_CREDENTIALS = frozenset({"authorization", "cookie", "x-amz-security-token", "x-api-key"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 8
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_SMALL_BYTES = 64 << 20
_IDLE_MOST = 64
_LONGEST_WAIT_S = 300.0
_DRAIN_BYTES = 64 << 10


class StatusError(HydrateError):
    """An answer that says no."""

    def __init__(self, status: int, message: str, challenge: str | None = None) -> None:
        super().__init__(message, refusal_reason(status))
        self.status = status
        self.challenge = challenge
        """What the server asks for instead: its WWW-Authenticate."""


@dataclass(frozen=True, slots=True)
class TransferTimeouts:
    connect_s: float = 15.0
    read_s: float = 30.0
    """Without a byte for so long, a connection is given up and the part is asked for again."""


class WebResponse:
    """An answer: its head, and its body to be read into buffers."""

    def __init__(self, client: "WebClient", connection: "CheckedConnection", url: str) -> None:
        self._client = client
        self._connection: CheckedConnection | None = connection
        self._response = connection.getresponse()
        self.url = url
        self.status = self._response.status
        self.headers = self._response.headers

    @property
    def length(self) -> int | None:
        return self._response.length

    @property
    def is_chunked(self) -> bool:
        return bool(self._response.chunked)

    def readinto(self, buffer: memoryview) -> int:
        with _failures(self.url):
            return self._response.readinto(buffer)

    def small(self, limit: int = _SMALL_BYTES) -> bytes:
        """A body that has to fit into memory."""
        with _failures(self.url):
            content = self._response.read(limit + 1)
        self.close()
        if len(content) > limit:
            raise HydrateError(f"{shown(self.url)} answered with more than {limit} bytes")
        return content

    def close(self) -> None:
        """Hands the connection back if the body was read to its end, and closes it if not. Once: two would share it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with suppress(OSError, http.client.HTTPException):
            if 0 < (self._response.length or 0) <= _DRAIN_BYTES:
                self._response.read()
        whole = self._response.isclosed() and not self._response.will_close
        self._response.close()
        self._client.give_back(connection, reusable=whole)


class WebClient:
    """Requests from many threads. Idle connections are kept."""

    def __init__(self, rule: OutboundRule, timeouts: TransferTimeouts | None = None) -> None:
        self._rule = rule
        self._timeouts = timeouts or TransferTimeouts()
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, str], list[CheckedConnection]] = {}
        self._busy: set[CheckedConnection] = set()

    def get(self, url: str, headers: Headers | None = None, *, method: str = "GET", secret: str = "") -> WebResponse:
        """An answer with a status of 200 to 299, after redirects. StatusError or TryAgainError if there is none.

        `secret` names a header that, as all that carry credentials, does not go along to another origin.
        """
        sent, kept = dict(headers or {}), {*_CREDENTIALS, secret.lower()}
        for _ in range(_MOST_REDIRECTS):
            response = self._send(method, url, sent)
            if response.status not in _REDIRECTS or "location" not in response.headers:
                return _accepted(response)
            response.close()
            target = urljoin(url, response.headers["location"])
            if not same_origin(target, url):
                sent = {name: value for name, value in sent.items() if name.lower() not in kept}
            if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
                raise SourceInvalidError(f"{shown(url)} redirects to {shown(target)}, which is not https")
            url = target
        raise SourceInvalidError(f"{shown(url)} redirects more than {_MOST_REDIRECTS} times")

    def abort(self) -> None:
        """Ends every read under way, and closes what is idle."""
        with self._lock:
            busy = list(self._busy)
            idle = [connection for each in self._idle.values() for connection in each]
            self._idle.clear()
        for connection in busy:
            connection.abort()
        for connection in idle:
            connection.close()

    def give_back(self, connection: "CheckedConnection", *, reusable: bool) -> None:
        with self._lock:
            self._busy.discard(connection)
            idle = self._idle.setdefault(connection.place, [])
            if reusable and len(idle) < _IDLE_MOST:
                idle.append(connection)
                return
        connection.close()

    def _send(self, method: str, url: str, headers: Headers) -> WebResponse:
        parts = _split(url)
        connection = self._take(parts)
        if connection.sock is not None:
            # The server may have closed an idle connection: that is no failure, and is asked on a new one.
            with suppress(TryAgainError):
                return self._exchange(connection, method, parts, headers)
            connection = self._new(parts)
        return self._exchange(connection, method, parts, headers)

    def _exchange(
        self, connection: "CheckedConnection", method: str, parts: SplitResult, headers: Headers
    ) -> WebResponse:
        with self._lock:
            self._busy.add(connection)
        try:
            with _failures(parts.geturl()):
                connection.request(method, connection.target(parts), headers=_with_defaults(parts, headers, connection))
                return WebResponse(self, connection, parts.geturl())
        except BaseException:
            self.give_back(connection, reusable=False)
            raise

    def _take(self, parts: SplitResult) -> "CheckedConnection":
        with self._lock:
            idle = self._idle.get((parts.scheme, parts.netloc))
            if idle:
                return idle.pop()
        return self._new(parts)

    def _new(self, parts: SplitResult) -> "CheckedConnection":
        tls = self._tls if parts.scheme == "https" else None
        return CheckedConnection(parts, self._rule, self._timeouts, tls)

    @functools.cached_property
    def _tls(self) -> ssl.SSLContext:
        """Made for the first https URL: reading all authorities takes longer than a small file."""
        return tls_context()


class CheckedConnection(http.client.HTTPConnection):
    """Connects to an address that the outbound rule has seen, or to the proxy that the environment names."""

    def __init__(
        self, parts: SplitResult, rule: OutboundRule, timeouts: TransferTimeouts, tls: ssl.SSLContext | None
    ) -> None:
        self.place = (parts.scheme, parts.netloc)
        self._secure = tls is not None
        port = parts.port or (443 if self._secure else 80)
        super().__init__(parts.hostname or "", port, timeout=timeouts.read_s)
        self._rule = rule
        self._timeouts = timeouts
        self._tls = tls
        self._proxy = proxy_for(parts)

    def target(self, parts: SplitResult) -> str:
        """A proxy is told the whole URL, except inside a tunnel."""
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return f"http://{parts.netloc}{path}" if self._proxy and not self._secure else path

    @property
    def proxy_headers(self) -> dict[str, str]:
        if self._proxy is None or self._proxy.username is None:
            return {}
        pair = f"{unquote(self._proxy.username)}:{unquote(self._proxy.password or '')}"
        return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    @property
    def is_proxied(self) -> bool:
        return self._proxy is not None and not self._secure

    def connect(self) -> None:
        if self._proxy is not None:
            self._refuse_by_name()
            self.sock = self._dial_proxy(self._proxy)
        else:
            self.sock = self._dial_checked()
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)
        self.sock.settimeout(self._timeouts.read_s)

    def abort(self) -> None:
        sock = self.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _dial_checked(self) -> socket.socket:
        """Addresses that are refused are left out. Where all are, the host is."""
        self._refuse(self._rule.refuse_host(self.host))
        judged = self._rule.judge(self.host, _resolved(self.host, self.port))
        if not judged.permitted:
            self._refuse(f"{self.host} resolves to {judged.refusal}")
        return _dial(judged.permitted, self.port, self._timeouts.connect_s)

    def _refuse_by_name(self) -> None:
        """The proxy may resolve to any address, so all must be permitted, as far as they are known here."""
        self._refuse(self._rule.refuse_host(self.host))
        with suppress(TryAgainError):  # only the proxy may be able to resolve it
            judged = self._rule.judge(self.host, _resolved(self.host, self.port))
            self._refuse(f"{self.host} resolves to {judged.refusal}" if judged.refusal else None)

    def _refuse(self, refusal: str | None) -> None:
        if refusal is not None:
            raise HydrateError(f"the outbound rule refuses {self.host}: {refusal}", Reason.OUTBOUND_REFUSED)

    def _dial_proxy(self, proxy: SplitResult) -> socket.socket:
        """The platform team names the proxy, so its address is not checked."""
        sock = socket.create_connection((proxy.hostname or "", proxy.port or 80), self._timeouts.connect_s)
        if self._secure:
            _open_tunnel(sock, f"{self.host}:{self.port}", self.proxy_headers)
        return sock


def proxy_for(parts: SplitResult) -> SplitResult | None:
    """The proxy of the environment: http_proxy, https_proxy, all_proxy, no_proxy."""
    proxies = getproxies_environment()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or proxy_bypass(parts.hostname or "", proxies):
        return None
    proxy = urlsplit(found if "://" in found else f"http://{found}")
    if proxy.scheme != "http" or not proxy.hostname:
        raise HydrateError(f"the proxy {proxy.scheme}://{proxy.hostname} is not an http proxy")
    return proxy


def tls_context() -> ssl.SSLContext:
    """Trusts what OpenSSL trusts, with SSL_CERT_FILE and SSL_CERT_DIR, and the bundles that other clients read."""
    context = ssl.create_default_context()
    for name in _BUNDLES:
        bundle = os.environ.get(name)
        if bundle:
            _load(context, bundle)
    return context


def same_origin(one: str, other: str) -> bool:
    return _origin(one) == _origin(other)


def shown(url: str) -> str:
    """A URL for a message: without a query, which may be a signature, and without credentials."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def retry_after_s(value: str | None) -> float | None:
    """The seconds of a Retry-After; a date is left to the back-off."""
    return min(float(value), _LONGEST_WAIT_S) if value is not None and value.isascii() and value.isdigit() else None


class _failures:  # noqa: N801  reads as the function it would be, without a generator for every block
    """Failures of a connection are for now; a wrong certificate is for good."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, HydrateError):
            return
        if isinstance(error, ssl.SSLCertVerificationError):
            raise HydrateError(f"{shown(self._url)}: {error.verify_message}") from error
        if isinstance(error, http.client.InvalidURL):
            raise SourceInvalidError(f"{shown(self._url)} is not a URL: {error}") from error
        if isinstance(error, (OSError, http.client.HTTPException, ValueError, AttributeError)):
            # A socket that another thread shut down may read as closed in several ways.
            raise TryAgainError(f"{shown(self._url)}: {str(error) or type(error).__name__}") from error


def _accepted(response: WebResponse) -> WebResponse:
    if 200 <= response.status < 300:  # noqa: PLR2004  the class of statuses that says yes
        return response
    wait = retry_after_s(response.headers.get("retry-after"))
    with suppress(TryAgainError):
        response.small(_DRAIN_BYTES)
    response.close()
    message = (
        f"{shown(response.url)} answered {response.status} {http.client.responses.get(response.status, '')}".strip()
    )
    if response.status in _AGAIN:
        raise TryAgainError(message, retry_after_s=wait)
    raise StatusError(response.status, message, response.headers.get("www-authenticate"))


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SourceInvalidError(f"{url!r} is not a URL: {error}") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or "@" in parts.netloc:
        raise SourceInvalidError(f"{shown(url)} is not an http or https URL without credentials")
    return parts


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = _split(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _with_defaults(parts: SplitResult, headers: Headers, connection: CheckedConnection) -> dict[str, str]:
    defaults = {
        "Host": parts.netloc,
        "User-Agent": f"modelplane-hydrate/{__version__}",
        "Accept-Encoding": "identity",
    }
    return {**defaults, **headers, **(connection.proxy_headers if connection.is_proxied else {})}


def _resolved(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host.removeprefix("[").removesuffix("]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise TryAgainError(f"{host} cannot be resolved: {error}") from error
    return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))


def _dial(addresses: Sequence[str], port: int, timeout_s: float) -> socket.socket:
    """The first address that answers, in the resolver's order."""
    failure: OSError = OSError("no address")
    for address in addresses:
        try:
            sock = socket.create_connection((str(ipaddress.ip_address(address)), port), timeout_s)
        except OSError as error:
            failure = error
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    raise failure


def _open_tunnel(sock: socket.socket, place: str, headers: Headers) -> None:
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}", *(f"{name}: {value}" for name, value in headers.items())]
    sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    response = http.client.HTTPResponse(sock, method="CONNECT")
    response.begin()
    if response.status != http.HTTPStatus.OK:
        sock.close()
        raise TryAgainError(f"the proxy answered {response.status} to a tunnel to {place}")


def _load(context: ssl.SSLContext, bundle: str) -> None:
    try:
        if os.path.isdir(bundle):  # noqa: PTH112  it goes to OpenSSL as it is
            context.load_verify_locations(capath=bundle)
        else:
            context.load_verify_locations(cafile=bundle)
    except OSError as error:
        raise HydrateError(f"the certificates in {bundle} cannot be read: {error}") from error
