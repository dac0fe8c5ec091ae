"""How a registry is talked to: anonymously, with a password, or with a token that its token service gives."""

import base64
import re
import threading
from urllib.parse import urlencode

import msgspec

from modelplane.api.reasons import Reason
from modelplane.hydrate.answers import decode_answer
from modelplane.hydrate.errors import HydrateError
from modelplane.hydrate.transport import StatusError, WebClient

_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class TokenAnswer(msgspec.Struct, frozen=True):
    token: str | None = None
    access_token: str | None = None


class RegistryAuth:
    """Learns from the first refusal what the registry wants. Tokens expire, and are asked for again."""

    def __init__(self, client: WebClient, repository: str, login: tuple[str, str] | None) -> None:
        self._client = client
        self._repository = repository
        self._login = login
        self._header: str | None = None
        self._lock = threading.Lock()

    def headers(self) -> dict[str, str]:
        header = self._header
        return {} if header is None else {"Authorization": header}

    def renew(self, refusal: StatusError) -> bool:
        """Whether there is another credential to try now."""
        with self._lock:
            before = self._header
            scheme, _, rest = (refusal.challenge or "").partition(" ")
            if scheme.lower() == "basic":
                self._header = self._basic()
            elif scheme.lower() == "bearer":
                self._header = f"Bearer {self._token(dict(_CHALLENGE.findall(rest)))}"
            return self._header is not None and (self._header != before or scheme.lower() == "bearer")

    def _basic(self) -> str | None:
        if self._login is None:
            return None
        return f"Basic {base64.b64encode(':'.join(self._login).encode()).decode()}"

    def _token(self, challenge: dict[str, str]) -> str:
        realm = challenge.get("realm", "")
        scope = challenge.get("scope", f"repository:{self._repository}:pull")
        query = {"scope": scope, **({"service": challenge["service"]} if "service" in challenge else {})}
        basic = self._basic()
        url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}"
        content = self._client.get(url, {} if basic is None else {"Authorization": basic}).small()
        answer = decode_answer(content, TokenAnswer, "the token service's answer cannot be read")
        token = answer.token or answer.access_token
        if not token or not token.isprintable():
            raise HydrateError("the token service gave no token", Reason.UNAUTHORIZED)
        return token
