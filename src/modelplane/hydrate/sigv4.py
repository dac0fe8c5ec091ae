"""AWS Signature Version 4, for requests without a body."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlsplit

_EMPTY = hashlib.sha256(b"").hexdigest()
_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class AccessKey:
    id: str
    secret: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


def signed_headers(key: AccessKey, region: str, url: str, timestamp: str, method: str = "GET") -> dict[str, str]:
    """The headers that authenticate a request. `timestamp` is UTC, as 20260131T235959Z."""
    parts = urlsplit(url)
    headers = {"host": parts.netloc, "x-amz-content-sha256": _EMPTY, "x-amz-date": timestamp}
    if key.session_token is not None:
        headers["x-amz-security-token"] = key.session_token
    names = ";".join(sorted(headers))
    scope = f"{timestamp[:8]}/{region}/s3/aws4_request"
    request = "\n".join([method, parts.path or "/", canonical_query(parts.query), _lines(headers), names, _EMPTY])
    text = "\n".join([_ALGORITHM, timestamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    signature = hmac.new(_signing_key(key.secret, timestamp[:8], region), text.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = f"{_ALGORITHM} Credential={key.id}/{scope},SignedHeaders={names},Signature={signature}"
    del headers["host"]
    return headers


def canonical_query(query: str) -> str:
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in _pairs(query))
    return "&".join(f"{name}={value}" for name, value in pairs)


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True)


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}:{headers[name].strip()}\n" for name in sorted(headers))


def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
