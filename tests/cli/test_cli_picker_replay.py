"""`modelplane picker explain --log`: what a picker that served wrote down is decided again."""

import asyncio
import contextlib
import json
import re
import signal
import sys

import aiohttp
import pytest

from modelplane.cli import main
from modelplane.epp.config.config import load
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.observe import DecisionLog, PickObserver
from modelplane.sim.engine import EngineConfig, SimulatedEngine
from modelplane.testing.picking import seeded
from tests.support.extproc_envoy import EnvoyPlan, Mode, envoy
from tests.support.waiting import until

CHAT = "/v1/chat/completions"
HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
CONFIG = HEAD + "plugins: [{type: queue-scorer}]\n"
FIRST = (
    HEAD
    + """
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: latency-scorer
- type: no-hit-lru-scorer
- {type: session-affinity-scorer, parameters: {strategy: session_id}}
- type: weighted-random-picker
"""
)
SECOND = FIRST.replace("weighted-random-picker", "max-score-picker").replace(
    "no-hit-lru-scorer", "active-request-scorer"
)


def write_log(path, text=CONFIG, *, endpoints=2, requests=3):
    lines = []
    observer = PickObserver(log=DecisionLog(lines.append, share=1.0))
    config = load(text)
    observer.configured(config)
    scheduler = Scheduler(config.build())
    pool = tuple(
        Endpoint(f"p-{at}", f"10.0.0.{at}:8000", metrics=EndpointMetrics(float(at), scraped_s=1.0))
        for at in range(endpoints)
    )
    for at in range(requests):
        request = Request(f"r-{at}", "m", prompts=(b"a secret",))
        heard = observer.record_steps(request, 0.0)
        decision = scheduler.schedule(request, pool, 1.5, seeded(at), heard)
        observer.decided(request, decision, 0.00001, heard)
    path.write_bytes(b"".join(lines))
    return str(path)


def explain(capsys, *words):
    code = main(["picker", "explain", *words])
    return code, *capsys.readouterr()


def test_all_decisions_of_a_log(tmp_path, capsys):
    code, out, _ = explain(capsys, "--log", write_log(tmp_path / "log"))
    assert code == 0
    head, *rows, last = out.splitlines()
    assert head.split() == ["AT", "REQUEST", "OUTCOME", "ENDPOINT", "REPLAYED"]
    assert [row.split()[1:] for row in rows] == [[f"r-{at}", "Picked", "p-0", "the", "same"] for at in range(3)]
    assert last == "3 came out the same, 0 did not, 0 ended before any plugin ran"


def test_one_decision_in_full(tmp_path, capsys):
    code, out, _ = explain(capsys, "--log", write_log(tmp_path / "log"), "--id", "r-1")
    assert code == 0
    assert out.splitlines()[0] == "Picked (200): 10.0.0.0:8000"
    assert "picked   p-0       10.0.0.0:8000  1.000  queue-scorer 1.000 x 1" in out
    assert out.splitlines()[-1].endswith("and replayed: the same")


def test_for_programs(tmp_path, capsys):
    code, out, _ = explain(capsys, "--log", write_log(tmp_path / "log"), "-o", "json")
    found = json.loads(out)
    assert code == 0
    assert [(one["request"], one["explanation"]["groups"], one["differences"]) for one in found] == [
        (f"r-{at}", [["p-0"]], []) for at in range(3)
    ]


def test_another_configuration(tmp_path, capsys):
    other = tmp_path / "other.yaml"
    other.write_text(HEAD + "plugins: [{type: cost-scorer}]\n")
    log = write_log(tmp_path / "log")
    code, out, _ = explain(capsys, "--log", log, "--config", str(other))
    assert code == 1
    assert out.splitlines()[-1] == "0 came out the same, 3 did not, 0 ended before any plugin ran"
    code, _, err = explain(capsys, "--log", log, "--config", str(other), "--id", "r-0")
    assert code == 1
    assert "was decided with configuration" in err
    assert "+  scorers  cost-scorer x 1" in err


def test_one_that_no_plugin_was_asked_about(tmp_path, capsys):
    log = write_log(tmp_path / "log", endpoints=0, requests=1)
    code, out, _ = explain(capsys, "--log", log)
    assert code == 0
    assert "ended as NoEndpoints (no endpoint is ready) before any plugin ran" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "say what to explain: --state and --request, or --log"),
        (["--state", "x"], "say what to explain"),
        (["--log", "x", "--state", "y"], "--log holds states and requests of its own"),
        (["--log", "nowhere"], "nowhere: No such file"),
        (["--log", "{log}", "--id", "r-9"], "no decision of request r-9 is in the log"),
    ],
)
def test_words_that_cannot_be(words, sentence, tmp_path, capsys):
    log = write_log(tmp_path / "log")
    code, _, err = explain(capsys, *(word.replace("{log}", log) for word in words))
    assert code == 1
    assert sentence in err


class Stage:
    """A picker's process with an Envoy before it and engines behind."""

    def __init__(self, folder):
        self.config, self.log = folder / "config.yaml", folder / "decisions.jsonl"
        self._listed = folder / "endpoints.yaml"
        self._folder = folder
        self.url = self.metrics = ""
        self.sent = 0

    @contextlib.asynccontextmanager
    async def up(self):
        async with contextlib.AsyncExitStack() as stack:
            self._listed.write_text("endpoints:\n" + "".join([await self._engine(stack, at) for at in range(3)]))
            self.config.write_text(FIRST)
            picker = await self._picker(stack)
            plan = EnvoyPlan(mode=Mode.DUPLEX_BOTH_WAYS, picker_port=picker)
            self.url = (await stack.enter_async_context(envoy(plan, self._folder))).url
            yield self

    async def _engine(self, stack, at):
        engine = SimulatedEngine(EngineConfig(cluster="c", namespace="ns", pod=f"m-{at}", models=("m",), speed=200))
        address = await engine.start("127.0.0.1")
        stack.push_async_callback(engine.stop)
        return f"- {{name: ns/m-{at}, address: 127.0.0.1, port: {address.port}}}\n"

    async def _picker(self, stack):
        flags = {
            "--config": self.config, "--endpoints": self._listed, "--decision-log": self.log, "--host": "127.0.0.1",
            "--decision-log-share": 1, "--grpc-port": 0, "--grpc-health-port": 0, "--metrics-port": 0,
            "--secure-serving": "false", "--max-body": "20Ki", "--zap-encoder": "console",
        }  # fmt: skip
        words = [str(word) for pair in flags.items() for word in pair]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "modelplane", "picker", "serve", *words), stdout=asyncio.subprocess.PIPE
        )

        async def stop():
            process.send_signal(signal.SIGTERM)
            await process.communicate()

        stack.push_async_callback(stop)
        found = re.search(rb"port (\d+);.*metrics on (\d+)", await process.stdout.readline())
        self.metrics = f"http://127.0.0.1:{int(found[2])}/metrics"
        return int(found[1])

    async def ask(self, client, at):
        self.sent += 1
        body = b"{"
        if at % 10:
            text = f"Group {at % 4} asks. " * (2000 if at % 10 == 1 else 30) + str(at)
            fields = {"model": "m", "max_tokens": 5, "stream": bool(at % 2)}
            body = json.dumps({**fields, "messages": [{"role": "user", "content": text}]}).encode()
        headers = {"x-request-id": f"r-{self.sent}", "x-session-id": f"s-{at % 3}", "authorization": "Bearer secret"}
        async with client.post(self.url + CHAT, data=body, headers=headers) as answer:
            await answer.read()
            return answer.status

    async def counted(self, client):
        async with client.get(self.metrics) as answer:
            page = await answer.text()
        return {
            name: sum(float(value) for value in re.findall(rf"^llm_d_epp_{name}{{.*}} (\S+)$", page, re.MULTILINE))
            for name in ("request_total", "request_error_total")
        }


async def live(folder):
    stage = Stage(folder)
    async with stage.up(), aiohttp.ClientSession() as client:
        statuses = [await stage.ask(client, at) for at in range(20)]
        statuses += await asyncio.gather(*(stage.ask(client, at) for at in range(20, 40)))
        stage.config.write_text(SECOND)
        await until(lambda: stage.log.read_bytes().count(b'"event":"configuration"') >= 2)
        statuses += await asyncio.gather(*(stage.ask(client, at) for at in range(40, 60)))
        return stage, statuses, await stage.counted(client)


@pytest.mark.e2e
@pytest.mark.submission
def test_every_decision_of_a_picker_behind_envoy(tmp_path, capsys):
    stage, statuses, counted = asyncio.run(live(tmp_path))
    assert [statuses.count(status) for status in (200, 400, 413)] == [48, 6, 6]
    assert counted == {"request_total": 60.0, "request_error_total": 12.0}
    log = stage.log.read_text()
    assert "secret" not in log
    assert "asks" not in log
    code, out, _ = explain(capsys, "--log", str(stage.log))
    assert code == 0, out
    assert out.splitlines()[-1] == "48 came out the same, 0 did not, 12 ended before any plugin ran"
