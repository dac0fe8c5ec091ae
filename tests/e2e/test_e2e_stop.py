"""How a plane ends: what is being answered is answered, what hangs is cut, and a crash loses nothing."""

import json
import signal
import threading

import httpx
import pytest


def stream(address, began, **headers):
    """The pieces of a long answer; sets `began` with the first one."""
    body = {"model": "qwen3-8b", "prompt": "hello", "max_tokens": 150, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{address}/v1/completions", json=body, headers=headers, timeout=150) as answer:
        pieces = []
        for line in answer.iter_lines():
            if line.startswith("data: "):
                pieces.append(line)
                began.set()
        return pieces


class Asking(threading.Thread):
    def __init__(self, address, **headers):
        super().__init__()
        self._address, self._headers = address, headers
        self.began = threading.Event()
        self.pieces = self.error = None
        self.start()

    def run(self):
        try:
            self.pieces = stream(self._address, self.began, **self._headers)
        except httpx.HTTPError as error:
            self.error = error


@pytest.fixture
def plane(up):
    found = up("-f", "examples/quickstart")
    found.ready("ms/chat", "md/qwen3-8b")
    return found


@pytest.mark.submission
@pytest.mark.timeout(500)
def test_a_stream_that_was_begun_ends_before_the_plane_does(plane, gone):
    family, ports = plane.family(), plane.ports()
    asking = Asking(f"{plane.gateway}/default/chat")
    assert asking.began.wait(150)
    plane.process.send_signal(signal.SIGINT)
    asking.join()
    assert asking.error is None
    assert asking.pieces[-1] == "data: [DONE]"
    assert len(asking.pieces) > 150
    assert plane.process.wait(150) == 130
    assert gone(family, ports)


@pytest.mark.submission
@pytest.mark.timeout(500)
def test_what_hangs_does_not_keep_a_plane_from_ending(plane, gone):
    family, ports = plane.family(), plane.ports()
    asking = Asking(f"{plane.gateway}/default/chat", **{"x-sim-fault": "drip=30"})
    assert asking.began.wait(150)
    plane.process.send_signal(signal.SIGTERM)
    assert plane.process.wait(150) == 143
    asking.join()
    assert asking.pieces is None or asking.pieces[-1] != "data: [DONE]"
    assert gone(family, ports)


@pytest.mark.submission
@pytest.mark.timeout(500)
def test_a_plane_that_was_killed_comes_back_and_serves(plane, up, gone):
    plane.kubectl("scale", "md/qwen3-8b", "--replicas=3")
    family = plane.family()
    plane.process.kill()
    plane.close()
    assert gone(family, ())
    again = up(data=plane.data)
    assert again.gateway == plane.gateway
    again.until(lambda: sum(again.placed().values()) == 3)
    again.ready("ms/chat", "md/qwen3-8b")
    body = {"model": "qwen3-8b", "prompt": "hello", "max_tokens": 2}
    answer = again.until(lambda: _answered(f"{again.gateway}/default/chat/v1/completions", body))
    assert answer["usage"]["completion_tokens"] == 2


def _answered(url, body):
    found = httpx.post(url, json=body, timeout=150)
    return json.loads(found.text) if found.status_code == 200 else None
