"""`modelplane router` and `modelplane explain request`, against a router that runs."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from modelplane.api.errors import InputError, NotFoundError
from modelplane.cli import router as command
from modelplane.cli._main import _parser, main
from modelplane.cli.explain_request import fetch_request, routers_of
from modelplane.compose.service_plan import plan_document
from tests.router.conftest import Front, endpoint, plan
from tests.support.loops import end_loop

FLAGS = ("--secure-serving", "false", "--grpc-port", "0", "--grpc-health-port", "0", "--admin-port", "0", "--no-probes")


def parsed(*words):
    return _parser(["router", *words]).parse_args(["router", *words])


@pytest.fixture
def running(tmp_path):
    """A router in a thread, and its address."""
    (tmp_path / "chat.json").write_bytes(plan_document(plan([endpoint("a")])))
    router = command.build(parsed("--plans", str(tmp_path), "--host", "127.0.0.1", *FLAGS))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(router.start(), loop).result(60)
    yield SimpleNamespace(router=router, url=f"http://127.0.0.1:{router.admin_port}")
    asyncio.run_coroutine_threadsafe(router.stop(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    end_loop(loop)


def test_a_request_is_explained(running, capsys):
    door = Front()
    door.director = running.router.director
    routed = door.send(headers={"x-request-id": "r/1"})
    door.end(routed)
    assert main(["explain", "request", "r/1", "--router", running.url]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("request r/1: team/chat: sent to team/a, 200 after ")
    assert "chosen   team/a" in printed
    assert main(["explain", "request", "r/1", "--router", running.url, "-o", "json"]) == 0
    assert '"endpoint": "team/a"' in capsys.readouterr().out
    with pytest.raises(NotFoundError, match="does not know this request"):
        fetch_request([running.url], "other")


def test_without_a_router_the_sentence_says_how_to_start_one(tmp_path):
    with pytest.raises(NotFoundError, match="modelplane up --router"):
        routers_of(SimpleNamespace(router="", data=tmp_path))


@pytest.mark.parametrize(
    "words",
    [
        ("--secure-serving", "false", "--cert-path", "."),
        ("--config", "/nowhere/x.yaml"),
        ("--usage-log", "/nowhere/x.log"),
        ("--grpc-port", "many"),
        ("--plans", "/nowhere"),
    ],
)
def test_wrong_flags_are_refused_with_a_sentence(tmp_path, words):
    with pytest.raises(InputError):
        command.build(parsed("--plans", str(tmp_path), *words))
