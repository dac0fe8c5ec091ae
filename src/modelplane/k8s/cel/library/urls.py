"""Absolute URLs, read as Go's net/url reads the target of a request.

Texts are handled as their UTF-8 bytes, one character per byte, because escapes may spell any byte.
"""

import ipaddress
import re
from dataclasses import dataclass

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.declarations import Overload, overload
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.values import register

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?", re.ASCII)
_PORT = re.compile(r":[0-9]*", re.ASCII)
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_HOST_BYTE = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"%\x80-\xff]*")
_PATH_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@")
_PATH_VALID = frozenset("!$&'()*+,;=:@[]%")
_USER_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,;=")
_FRAGMENT_PLAIN = _PATH_PLAIN | frozenset("!()*?")
_ASCII_HEX = "01234567"


@dataclass(frozen=True, slots=True)
class URL:
    """The parts of a URL; `host` includes the port, and `text` is its normal form, by which URLs are equal."""

    scheme: str
    host: str
    path: str
    raw_query: str
    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URL) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


register(URL, t.URL)


class _Refused(Exception):  # noqa: N818  internal: why a text is no URL
    pass


@dataclass(slots=True)
class _Parts:
    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    host: str = ""
    path: str = ""
    escaped_path: str = ""
    query: str = ""
    force_query: bool = False
    omit_host: bool = False


def _as_bytes(text: str) -> str:
    return text.encode().decode("latin-1")


def _as_text(raw: str) -> str:
    return raw.encode("latin-1").decode(errors="replace")


def _unescape(raw: str, *, host: bool = False, plus: bool = False) -> str:
    for match in _ESCAPE.finditer(raw):
        digits = match.group(1)
        if digits is None or (host and digits[0] in _ASCII_HEX and digits != "25"):
            raise _Refused("invalid URL escape")
    if host and not _HOST_BYTE.fullmatch(raw):
        raise _Refused("invalid character in host name")
    if plus:
        raw = raw.replace("+", " ")
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), raw)


def _escape(raw: str, plain: frozenset[str]) -> str:
    return "".join([char if char in plain else f"%{ord(char):02X}" for char in raw])


def _parse(raw: str, *, request: bool) -> _Parts:
    if _CONTROL.search(raw):
        raise _Refused("invalid control character in URL")
    if not raw and request:
        raise _Refused("empty URL")
    parts = _Parts()
    if raw == "*":
        parts.path = parts.escaped_path = "*"
        return parts
    rest = _split_scheme(raw, parts)
    if rest.endswith("?") and rest.count("?") == 1:
        parts.force_query, rest = True, rest[:-1]
    else:
        rest, _, parts.query = rest.partition("?")
    if not rest.startswith("/"):
        if parts.scheme:
            parts.opaque = rest
            return parts
        if request:
            raise _Refused("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _Refused("first path segment in URL cannot contain colon")
    return _parse_hierarchy(parts, rest, request=request)


def _split_scheme(raw: str, parts: _Parts) -> str:
    match = _SCHEME.match(raw)
    if match:
        parts.scheme = match.group(1).lower()
        return raw[match.end() :]
    if raw.startswith(":"):
        raise _Refused("missing protocol scheme")
    return raw


def _parse_hierarchy(parts: _Parts, rest: str, *, request: bool) -> _Parts:
    if (parts.scheme or (not request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        _parse_authority(parts, authority)
        rest = slash + path
    elif parts.scheme and rest.startswith("/"):
        parts.omit_host = True
    parts.path = _unescape(rest)
    default = _escape(parts.path, _PATH_PLAIN)
    valid = all(char in _PATH_PLAIN or char in _PATH_VALID for char in rest)
    parts.escaped_path = rest if valid else default
    return parts


def _parse_authority(parts: _Parts, authority: str) -> None:
    userinfo, at, host = authority.rpartition("@")
    parts.host = _parse_host(parts.scheme, host)
    if not at:
        return
    if not _USERINFO.fullmatch(userinfo):
        raise _Refused("invalid userinfo")
    name, colon, password = userinfo.partition(":")
    parts.user = _escape(_unescape(name), _USER_PLAIN)
    if colon:
        parts.user += ":" + _escape(_unescape(password), _USER_PLAIN)


def _parse_host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise _Refused("invalid IP-literal")
    if bracket == 0:
        return _parse_literal(host)
    first, last = host.find(":"), host.rfind(":")
    if first >= 0:
        # Only http and https refuse more than one colon.
        port = host[first if scheme in {"http", "https"} else last :]
        if not _PORT.fullmatch(port):
            raise _Refused("invalid port after host")
    return _unescape(host, host=True)


def _parse_literal(host: str) -> str:
    close = host.rfind("]")
    if close < 0:
        raise _Refused("missing ']' in host")
    port = host[close + 1 :]
    if port and not _PORT.fullmatch(port):
        raise _Refused("invalid port after host")
    name, percent, zone = host[1:close].partition("%25")
    literal = _unescape(name, host=True) + _unescape(percent + zone)
    try:
        address = ipaddress.ip_address(literal)
    except ValueError:
        raise _Refused("invalid host") from None
    if isinstance(address, ipaddress.IPv4Address):
        raise _Refused("invalid IP-literal")
    return f"[{literal}]{port}"


def _rendered(parts: _Parts, fragment: str) -> str:
    text = f"{parts.scheme}:" if parts.scheme else ""
    if parts.opaque:
        text += parts.opaque
    else:
        text += _rendered_hierarchy(parts)
    if parts.force_query or parts.query:
        text += "?" + parts.query
    return text + (f"#{fragment}" if fragment else "")


def _rendered_hierarchy(parts: _Parts) -> str:
    text = ""
    has_authority = bool(parts.scheme or parts.host or parts.user is not None)
    if has_authority and not (parts.omit_host and not parts.host and parts.user is None):
        if parts.host or parts.path or parts.user is not None:
            text += "//"
        if parts.user is not None:
            text += parts.user + "@"
        text += parts.host
    separator = "/" if parts.escaped_path and not parts.escaped_path.startswith("/") and parts.host else ""
    return text + separator + parts.escaped_path


def is_url(text: str) -> bool:
    """`isURL(text)`."""
    try:
        _parse(_as_bytes(text), request=True)
    except _Refused:
        return False
    return True


def to_url(text: str) -> URL:
    """`url(text)`."""
    raw = _as_bytes(text)
    try:
        _parse(raw, request=True)
        address, _, fragment = raw.partition("#")
        parts = _parse(address, request=False)
        fragment = _escape(_unescape(fragment), _FRAGMENT_PLAIN)
    except _Refused as reason:
        raise EvaluationError(f"{text[:64]!r} is not a URL: {reason}") from None
    return URL(parts.scheme, parts.host, parts.escaped_path, parts.query, _rendered(parts, fragment))


def _split_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if not colon or not _PORT.fullmatch(":" + port):
        name, port = host, ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


def _query(url: URL) -> dict[str, object]:
    found: dict[str, list[object]] = {}
    for pair in url.raw_query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        try:
            key, value = _as_text(_unescape(key, plus=True)), _as_text(_unescape(value, plus=True))
        except _Refused:
            continue
        found.setdefault(key, []).append(value)
    return dict(found)


FUNCTIONS: tuple[Overload, ...] = (
    overload("string_to_url", "url(string) -> URL", to_url),
    overload("url_get_scheme", "URL.getScheme() -> string", lambda url: url.scheme),
    overload("url_get_host", "URL.getHost() -> string", lambda url: _as_text(url.host)),
    overload("url_get_hostname", "URL.getHostname() -> string", lambda url: _as_text(_split_port(url.host)[0])),
    overload("url_get_port", "URL.getPort() -> string", lambda url: _split_port(url.host)[1]),
    overload("url_get_escaped_path", "URL.getEscapedPath() -> string", lambda url: _as_text(url.path)),
    overload("url_get_query", "URL.getQuery() -> map(string, list(string))", _query),
    overload("is_url_string", "isURL(string) -> bool", is_url),
)
