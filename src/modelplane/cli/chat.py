"""`modelplane chat SERVICE`: talks to a service in the terminal, and shows the response as it is generated."""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError, NotFoundError, UnavailableError
from modelplane.api.objects import Manifest, name_of, namespace_of, text_at
from modelplane.cli._formats import add_plane, plane_of
from modelplane.cli._near import near_object
from modelplane.cli.running import RunningPlane
from modelplane.cli.service import service_name
from modelplane.k8s.admission.decode import escape
from modelplane.views.services import chosen_model

if TYPE_CHECKING:
    from http.client import HTTPResponse

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a model might say to move the cursor or to reverse the writing direction."""
_EPILOG = """\
examples:
  modelplane chat chat
  modelplane chat helper -n team -m "Write a haiku about queues."
  modelplane chat ms/helper --kubeconfig ~/.kube/config
  MODELPLANE_API_KEY=… modelplane chat helper --max-tokens 200 < questions.txt

Each line of the standard input is a message; what was said before goes along. The key of a gateway with callers is read
from $MODELPLANE_API_KEY. Exit codes: 0 done, 1 no plane runs, no such service exists, or it refused.
"""
KEY = "MODELPLANE_API_KEY"
_TIMEOUT_S = 300.0
_NO_KEY = 401
_NO_ENDPOINT = 503
_KEY_HINT = f"; its gateway requires a key: give yours in ${KEY}"
_DATA = "data:"
_DONE = "[DONE]"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Sends messages to a ModelService through its gateway and streams what it answers."
    parser.epilog = _EPILOG
    parser.add_argument("name", metavar="SERVICE", help="the ModelService, or ms/NAME")
    parser.add_argument("-n", "--namespace", default="default", help="its namespace (default)")
    parser.add_argument("-m", "--message", help="send this one message, and end")
    parser.add_argument("--system", default="", metavar="TEXT", help="a system message before the first")
    parser.add_argument("--model", default="", help="the model's name (default: the service's, or its engine's)")
    parser.add_argument("--max-tokens", type=int, default=1024, metavar="N", help="tokens of a response (1024)")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="trust the certificates of this file, for https")
    add_plane(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.message is not None and not arguments.message.strip():
        raise InputError("--message is empty; without it each line of the standard input is a message")
    namespace, name = arguments.namespace, service_name(arguments.name)
    service = _service(plane_of(arguments), namespace, name)
    address = text_at(service, "status", "address")
    why = f"`modelplane trace ms/{name}{'' if namespace == 'default' else f' -n {namespace}'}` says what it waits for"
    if not address:
        raise UnavailableError(f"ModelService {namespace}/{name} has no address yet; {why}")
    client = ChatClient(address, os.environ.get(KEY, ""), arguments.ca, arguments.max_tokens, why=why)
    client.choose_model(arguments.model, text_at(service, "status", "model"))
    if arguments.system:
        client.messages.append({"role": "system", "content": arguments.system})
    for line in [arguments.message] if arguments.message is not None else _lines():
        for piece in client.say(line):
            print(printed(piece), end="", flush=True)
        print(flush=True)
    return 0


def printed(piece: str) -> str:
    """What a model says, as a terminal may get it. Line breaks, tabs and joined emoji stay."""
    return _CONTROLS.sub(lambda found: escape(found[0]), piece)


def _lines() -> Iterator[str]:
    """The messages of the standard input, asked for where a person types them."""
    prompts = sys.stdin.isatty()
    while True:
        if prompts:
            print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


def _service(plane: RunningPlane, namespace: str, name: str) -> Manifest:
    known = plane.items("modelservices")
    for item in known:
        if (namespace_of(item), name_of(item)) == (namespace, name):
            return item
    raise NotFoundError(f"ModelService {namespace}/{name} does not exist{near_object(name, namespace, known)}")


@dataclass(slots=True)
class ChatClient:
    """A conversation with a service at its address."""

    address: str
    key: str = field(repr=False)
    trusted: Path | None = None
    max_tokens: int = 1024
    model: str = ""
    why: str = ""
    """What to type where no endpoint answers."""
    messages: list[dict[str, str]] = field(default_factory=list)

    def choose_model(self, given: str, service_model: str) -> None:
        """The given one; else the service's where it is listed, as a fleet router does; else the engine's own."""
        if given:
            self.model = given
            return
        with self._open("/v1/models", None) as response:
            listed = [str(each.get("id", "")) for each in json.load(response).get("data", ())]
        self.model = chosen_model(listed, service_model)

    def say(self, text: str) -> Iterator[str]:
        """The pieces of the response. It becomes part of the conversation."""
        self.messages.append({"role": "user", "content": text})
        body = {"model": self.model, "messages": self.messages, "max_tokens": self.max_tokens, "stream": True}
        said: list[str] = []
        with self._open("/v1/chat/completions", body) as response:
            for piece in deltas(line.decode(errors="replace") for line in response):
                said.append(piece)
                yield piece
        self.messages.append({"role": "assistant", "content": "".join(said)})

    def _open(self, path: str, body: dict[str, object] | None) -> "HTTPResponse":
        import ssl
        import urllib.error
        import urllib.request

        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {self.key}"} if self.key else {})}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}{path}", data=data, headers=headers)  # noqa: S310  the service's own address
        context = ssl.create_default_context(cafile=str(self.trusted)) if self.trusted else None
        try:
            found: HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context)  # noqa: S310  as above
        except urllib.error.HTTPError as error:
            hint = _KEY_HINT if error.code == _NO_KEY else f"; {self.why}" if error.code == _NO_ENDPOINT else ""
            said = _sentence(error.read()).rstrip(".")
            raise InputError(f"the service returned {error.code}: {said}{hint}") from error
        except urllib.error.URLError as error:
            raise UnavailableError(f"{self.address} is unreachable: {error.reason}") from error
        return found


def deltas(lines: Iterable[str]) -> Iterator[str]:
    """The texts of a stream of chat completions. InputError where the stream says that it failed."""
    for line in lines:
        data = line.removeprefix(_DATA).strip() if line.startswith(_DATA) else ""
        if not data:
            continue
        if data == _DONE:
            return
        try:
            event = json.loads(data)
        except ValueError:
            raise InputError(f"the service sent what is no JSON: {data[:80]!r}") from None
        if isinstance(event, dict) and "error" in event:
            raise InputError(f"the service ended the response: {_sentence(data.encode())}")
        for choice in event.get("choices", ()) if isinstance(event, dict) else ():
            text = (choice.get("delta") or {}).get("content")
            if text:
                yield str(text)


def _sentence(body: bytes) -> str:
    """The message of an error, in either API's shape."""
    try:
        found = json.loads(body)
        return str(found["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()[:200] or "no reason given"
