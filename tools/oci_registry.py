"""Pushes images to a registry, by the OCI distribution API alone: no daemon and no client program.

Blobs that the registry has are not sent again. Credentials go to the registry and to the token service that it names,
and nowhere else: an upload that a registry sends to another host carries its own signature.
"""

import base64
import hashlib
import http.client
import json
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urljoin, urlsplit

from oci import INDEX, StoredImage

_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_TIMEOUT_S = 300.0
_OK, _CREATED, _ACCEPTED, _UNAUTHORIZED = 200, 201, 202, 401


class PushError(Exception):
    """The registry refused, or does not answer; the sentence has its words."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Login:
    user: str
    password: str

    @property
    def header(self) -> str:
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"


def find_login(host: str, environment: Mapping[str, str]) -> Login | None:
    """From REGISTRY_USERNAME and REGISTRY_PASSWORD, else as `docker login` and `helm registry login` left it."""
    user, password = environment.get("REGISTRY_USERNAME"), environment.get("REGISTRY_PASSWORD")
    if user and password:
        return Login(user, password)
    folder = environment.get("DOCKER_CONFIG") or str(Path(environment.get("HOME", "/")) / ".docker")
    path = Path(folder) / "config.json"
    if not path.is_file():
        return None
    config = json.loads(path.read_text())
    packed = config.get("auths", {}).get(host, {}).get("auth")
    if packed:
        return Login(*base64.b64decode(packed).decode().split(":", 1))
    if config.get("credsStore") or host in config.get("credHelpers", {}):
        raise PushError(f"{path} keeps the password in another program; set REGISTRY_USERNAME and REGISTRY_PASSWORD")
    return None


@dataclass
class Registry:
    """One registry, as one user."""

    host: str
    login: Login | None = None
    plain_http: bool = False
    _header: str = field(default="", init=False)

    @classmethod
    def of(cls, host: str, *, plain_http: bool) -> "Registry":
        return cls(host, find_login(host, os.environ), plain_http)

    def push(self, repository: str, tag: str, images: tuple[StoredImage, ...]) -> str:
        """One manifest, or an index of one for each architecture. Returns the digest that the tag means."""
        for image in images:
            for blob in image.blobs:
                self._push_blob(repository, blob)
        if len(images) == 1:
            return self._push_manifest(repository, tag, images[0].manifest, images[0].media_type)
        described = []
        for image in images:
            digest = self._push_manifest(repository, digest_of(image.manifest), image.manifest, image.media_type)
            platform = {"os": "linux", "architecture": image.architecture}
            size = len(image.manifest)
            described.append({"mediaType": image.media_type, "digest": digest, "size": size, "platform": platform})
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": described}
        return self._push_manifest(repository, tag, json.dumps(index, sort_keys=True).encode(), INDEX)

    def _push_blob(self, repository: str, content: bytes) -> None:
        digest = digest_of(content)
        if self._call("HEAD", f"/v2/{repository}/blobs/{digest}").status == _OK:
            return
        started = self._call("POST", f"/v2/{repository}/blobs/uploads/", headers={"Content-Length": "0"})
        self._expect(started, _ACCEPTED, f"an upload to {repository}")
        place = urljoin(self._url("/"), started.headers.get("location", ""))
        separator = "&" if urlsplit(place).query else "?"
        done = self._call(
            "PUT",
            f"{place}{separator}{urlencode({'digest': digest})}",
            content,
            {"Content-Type": "application/octet-stream"},
        )
        self._expect(done, _CREATED, f"blob {digest} of {repository}")

    def _push_manifest(self, repository: str, reference: str, content: bytes, media_type: str) -> str:
        place = f"/v2/{repository}/manifests/{reference}"
        done = self._call("PUT", place, content, {"Content-Type": media_type})
        self._expect(done, _CREATED, f"{repository}:{reference}")
        return digest_of(content)

    def _url(self, path: str) -> str:
        return f"{'http' if self.plain_http else 'https'}://{self.host}{path}"

    def _expect(self, answer: Answer, status: int, what: str) -> None:
        if answer.status != status:
            words = answer.body.decode(errors="replace").strip()[:300]
            raise PushError(f"{self.host}: {what}: {answer.status} {words}")

    def _call(self, method: str, place: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        """Once more with a credential where the registry says which it wants."""
        url = place if place.startswith("http") else self._url(place)
        answer = self._send(method, url, body, headers or {})
        if answer.status != _UNAUTHORIZED:
            return answer
        self._header = self._authorization(answer.headers.get("www-authenticate", ""))
        return self._send(method, url, body, headers or {})

    def _authorization(self, challenge: str) -> str:
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() != "bearer":
            if self.login is None:
                raise PushError(
                    f"{self.host} wants a login: REGISTRY_USERNAME and REGISTRY_PASSWORD, or `docker login`"
                )
            return self.login.header
        named = dict(_CHALLENGE.findall(rest))
        query = urlencode({name: named[name] for name in ("service", "scope") if name in named})
        realm = named.get("realm", "")
        if urlsplit(realm).scheme != "https" and not self.plain_http:
            raise PushError(f"{self.host}: its token service {realm!r} is not https")
        headers = {} if self.login is None else {"Authorization": self.login.header}
        answer = _exchange("GET", f"{realm}{'&' if '?' in realm else '?'}{query}", b"", headers)
        self._expect(answer, _OK, "a token")
        token = json.loads(answer.body)
        return f"Bearer {token.get('token') or token.get('access_token')}"

    def _send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        ours = urlsplit(url).netloc == self.host
        given = {"Authorization": self._header} if self._header and ours else {}
        return _exchange(method, url, body, {**headers, **given})


def _exchange(method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    parts = urlsplit(url)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(parts.netloc, timeout=_TIMEOUT_S, context=ssl.create_default_context())
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT_S)
    try:
        connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path, body or None, headers)
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read())
    except (OSError, http.client.HTTPException) as error:
        raise PushError(f"{parts.netloc} does not answer: {error}") from error
    finally:
        connection.close()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
