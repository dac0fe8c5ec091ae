"""What the programs of Modelplane write where no terminal is: JSON lines, each with a reason."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modelplane.compose.service_plan import plan_document
from modelplane.reconcile.log_reasons import LogReason
from tests.router.conftest import endpoint, plan
from tests.tunnel.conftest import wait, world  # noqa: F401  a fixture

pytestmark = [pytest.mark.e2e, pytest.mark.slow]  # each program is a process
ROOT = Path(__file__).resolve().parents[2]
PORTS = ("--grpc-port", "0", "--grpc-health-port", "0", "--secure-serving", "false", "--host", "127.0.0.1")
REASONS = {reason.value for reason in LogReason}


class Written:
    """A program as a pod has it: both of its streams in one file."""

    def __init__(self, folder, *words):
        self.path = folder / "log"
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        with self.path.open("wb") as log:
            program = [sys.executable, "-m", "modelplane", *map(str, words)]
            self.process = subprocess.Popen(program, stdout=log, stderr=log, env=environment)

    def until(self, reason):
        """The line with this reason."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for line in self.path.read_text().splitlines(keepends=True):
                if line.endswith("\n") and json.loads(line).get("reason") == reason:
                    return json.loads(line)
            assert self.process.poll() is None, self.path.read_text()
            time.sleep(0.1)
        raise AssertionError(self.path.read_text())

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        return lines_of(self.path)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def start(tmp_path):
    begun = []

    def started(*words):
        begun.append(Written(tmp_path, *words))
        return begun[-1]

    yield started
    for each in begun:
        each.process.kill()
        each.process.wait()


def strange(lines):
    """Lines of ours without a reason of the set."""
    return [line for line in lines if line["logger"].startswith("modelplane") and line.get("reason") not in REASONS]


def test_the_picker_names_the_pod_that_it_cannot_scrape(start, tmp_path):
    listed = tmp_path / "endpoints.yaml"
    listed.write_text("endpoints:\n- {name: chat-0, address: 127.0.0.1, port: 9}\n")
    picker = start("picker", "serve", "--endpoints", listed, "--metrics-port", "0", *PORTS)
    assert picker.until("ScrapeFailed")["object"] == "Pod/default/chat-0"
    assert picker.until("Serving")["msg"].startswith("serving on port ")
    lines = picker.end()
    assert (strange(lines), lines[-1]["reason"]) == ([], "Stopping")


def test_the_router_names_the_service_whose_plan_is_broken(start, tmp_path):
    plans = tmp_path / "plans"
    plans.mkdir()
    (plans / "chat.json").write_bytes(plan_document(plan([endpoint("a")])))
    router = start("router", "--plans", plans, "--admin-port", "0", "--no-probes", *PORTS)
    router.until("Serving")
    (plans / "chat.json").write_text("{")
    assert router.until("PlanInvalid")["object"] == "ModelService/team/chat"
    assert strange(router.end()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("function", "--insecure", "--address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0"),
        ("picker", "sidecar", "--host", "127.0.0.1", "--port", "0", "--drain", "0"),
    ],
    ids=["function", "sidecar"],
)
def test_a_program_says_that_it_serves(words, start):
    program = start(*words)
    assert program.until("Serving")["level"] == "info"
    assert strange(program.end()) == []


def test_hub_and_agent_name_the_cluster(world):  # noqa: F811  the fixture
    hub = world.start_hub()
    world.control.request(
        "POST",
        "/apis/modelplane.ai/v1alpha1/inferenceclusters",
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": "east"},
            "spec": {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}}, "nodePools": []},
        },
    )
    world.enrol("east")
    agent = world.start_agent()
    world.connected(hub)
    wait(lambda: "AgentConnected" in agent.log.read_text(), "the agent's line")
    about = {(line["reason"], line.get("object")) for line in lines_of(hub.log)}
    assert {("AgentJoined", "InferenceCluster/east"), ("AgentConnected", "InferenceCluster/east")} <= about
    assert strange([*lines_of(hub.log), *lines_of(agent.log)]) == []
    assert ("AgentJoined", "InferenceCluster/east") in {
        (line["reason"], line.get("object")) for line in lines_of(agent.log)
    }
