"""`modelplane chat`: what is read of a stream, and a conversation with a server."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from modelplane.api.errors import InputError
from modelplane.cli import main
from modelplane.cli.chat import ChatClient, deltas, printed
from tests.support.hostile_texts import UNPRINTED


def chunk(text):
    return "data: " + json.dumps({"choices": [{"delta": {"content": text}}]}) + "\n"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], []),
        ([chunk("a"), "\n", ": a comment\n", chunk("b"), "data: [DONE]\n", chunk("c")], ["a", "b"]),
        (['data: {"choices": [{"delta": {"role": "assistant"}}]}\n', chunk("x")], ["x"]),
        (['data: {"choices": [], "usage": {"prompt_tokens": 1}}\n'], []),
    ],
    ids=["nothing", "until done", "a role", "usage"],
)
def test_texts_of_a_stream(lines, said):
    assert list(deltas(lines)) == said


@pytest.mark.parametrize(
    ("line", "sentence"),
    [("data: {\n", "no JSON"), ('data: {"error": {"message": "the engine is gone"}}\n', "the engine is gone")],
)
def test_a_stream_that_fails_says_so(line, sentence):
    with pytest.raises(InputError, match=sentence):
        list(deltas([line]))


@pytest.mark.parametrize("text", UNPRINTED, ids=ascii)
def test_a_model_moves_no_cursor(text):
    assert not set(printed(text)) & {"\x1b", "\x9b", "\x07", "\x08", "\x00", "\r", "\u202e", "\u2066"}


def test_what_models_say_is_printed_as_it_is():
    text = "one\n\ttwo \U0001f469\u200d\U0001f4bb \u0645\u0631\u062d\u0628\u0627"
    assert printed(text) == text


class Server(BaseHTTPRequestHandler):
    """Lists one model, streams two words, and refuses what is not for that model."""

    asked: list = []  # noqa: RUF012  the handler is made anew for each request

    def do_GET(self):
        self._send(200, json.dumps({"data": [{"id": "engine"}]}))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.headers.get("Authorization"), body))
        if body["model"] == "guarded":
            self._send(401, json.dumps({"error": {"message": "Client authentication failed."}}))
        elif body["model"] == "idle":
            self._send(503, "no healthy upstream")
        elif body["model"] != "engine":
            self._send(404, json.dumps({"error": {"message": "no such model"}}))
        else:
            self._send(200, chunk("hel") + "\n" + chunk("lo") + "\ndata: [DONE]\n\n")

    def _send(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def address():
    server = HTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_conversation_goes_on_with_what_was_said(address):
    client = ChatClient(address, "key-a", max_tokens=5)
    client.choose_model("", "team/chat")
    assert ["".join(client.say(text)) for text in ("hi", "again")] == ["hello", "hello"]
    key, body = Server.asked[-1]
    assert (key, body["model"], body["max_tokens"], body["stream"]) == ("Bearer key-a", "engine", 5, True)
    assert [each["content"] for each in body["messages"]] == ["hi", "hello", "again"]


def test_a_refusal_is_one_sentence(address):
    client = ChatClient(address, "", model="other")
    with pytest.raises(InputError, match="returned 404: no such model"):
        list(client.say("hi"))
    with pytest.raises(InputError) as raised:
        list(ChatClient(address, "", model="guarded").say("hi"))
    assert str(raised.value) == (
        "the service returned 401: Client authentication failed; its gateway requires a key: give yours in "
        "$MODELPLANE_API_KEY"
    )
    with pytest.raises(InputError) as raised:
        list(ChatClient(address, "", model="idle", why="type this").say("hi"))
    assert str(raised.value) == "the service returned 503: no healthy upstream; type this"


def test_an_empty_message_is_refused(tmp_path, capsys):
    assert main(["chat", "chat", "-m", " ", "--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        "modelplane chat: --message is empty; without it each line of the standard input is a message\n"
    )
