"""How steps are run and told; and how a lab is found, asked and ended from outside."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lab import launch
from lab.__main__ import EXIT_CANNOT, EXIT_FAILED, EXIT_USAGE, main
from lab.e2e.run import known_steps, step_names
from lab.oracles.finding import Difference, Finding
from lab.oracles.run import NAMES
from lab.places import Places
from lab.scenario import Mark, Scenario, report


async def works() -> str:
    return "seen | much"


async def breaks() -> str:
    raise ExceptionGroup("many", [ValueError("not so")])


def run(*steps):
    scenario = Scenario(lambda _: None)

    async def main():
        for name, action, needed in steps:
            await scenario.step(name, action, needed=needed)

    asyncio.run(main())
    return scenario


def test_a_step_that_fails_does_not_end_the_scenario():
    scenario = run(("a", breaks, False), ("b", works, False))
    assert [(r.name, r.mark, r.text) for r in scenario.results] == [
        ("a", Mark.FAILED, "ValueError: not so"),
        ("b", Mark.PASSED, "seen | much"),
    ]
    assert not scenario.passed


def test_a_needed_step_that_fails_skips_the_rest():
    scenario = run(("a", breaks, True), ("b", works, False))
    assert [r.mark for r in scenario.results] == [Mark.FAILED, Mark.SKIPPED]


def test_a_step_and_a_comparison_never_share_a_name():
    assert set(NAMES) == known_steps() - step_names()


def test_differences_without_a_reason_fail_a_scenario():
    scenario = run(("a", works, False))
    assert scenario.passed
    scenario.findings.append(Finding("o", 1, (Difference("c", "x"),)))
    assert not scenario.passed


def test_the_report_is_a_page_with_a_table():
    scenario = run(("a", works, False))
    scenario.findings.append(Finding("pods", 3))
    page = report(scenario, "Title", ["a fact"])
    assert "- a fact" in page
    assert "| a | ok | 0.0 | seen / much |" in page
    assert "## pods" in page


@pytest.fixture
def places(tmp_path):
    found = Places(tmp_path / "cache", tmp_path / "state")
    found.state.mkdir()
    return found


def test_without_a_lab_commands_say_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MODELPLANE_LAB_STATE", str(tmp_path))
    assert (main(["status"]), main(["exec", "true"]), main(["down"])) == (EXIT_FAILED, EXIT_FAILED, 0)
    told = capsys.readouterr()
    assert "the lab is not running" in told.out
    assert "the lab is not running: `make lab` starts it" in told.err


def test_a_step_that_there_is_not_starts_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MODELPLANE_LAB_STATE", str(tmp_path))
    assert main(["e2e", "--step", "install", "--step", "instal"]) == EXIT_USAGE
    told = capsys.readouterr().out
    assert told.startswith("--step: there is no instal; there are agent, causes, claims, ")
    assert "install" in told
    assert list(tmp_path.iterdir()) == []


def test_without_go_a_lab_is_not_started(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MODELPLANE_LAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("MODELPLANE_LAB_CACHE", str(tmp_path / "cache"))
    assert [main(["up"]), main(["build"]), main(["e2e"])] == [EXIT_CANNOT] * 3
    assert "the lab builds its components with Go 1.26 or newer" in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


def test_a_process_with_a_reused_id_is_not_the_lab(places):
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        known = launch.Known(process.pid, launch._began(process.pid), process.pid)
        launch._write(places, known)
        assert launch.running(places) == known
        launch._write(places, launch.Known(process.pid, "earlier", process.pid))
        assert launch.running(places) is None
        assert launch.stop(places, lambda _: None) is False
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_lab_that_does_not_answer_is_killed(places, monkeypatch):
    monkeypatch.setattr(launch, "_STOP_WITHIN_S", 0.5)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    launch._write(places, launch.Known(process.pid, launch._began(process.pid), process.pid))
    said = []
    assert launch.stop(places, said.append) is True
    assert said == ["the lab does not end by itself; killing it"]
    assert not places.pid_file.exists()
    assert launch._began(process.pid) is None
    process.wait()


def test_questions_go_over_the_socket(places):
    async def answer(reader, writer):
        asked = json.loads(await reader.readline())
        writer.write(json.dumps({"heard": asked}).encode() + b"\n")
        await writer.drain()
        writer.close()

    started, stop = threading.Event(), threading.Event()

    def serve():
        async def main():
            async with await asyncio.start_unix_server(answer, places.control_socket):
                started.set()
                await asyncio.to_thread(stop.wait)

        asyncio.run(main())

    thread = threading.Thread(target=serve)
    thread.start()
    started.wait(30)
    try:
        assert launch.ask(places, "kill", name="x") == {"heard": {"do": "kill", "name": "x"}}
    finally:
        stop.set()
        thread.join()
    assert launch.ask(Places(Path("/none"), Path("/none")), "status") is None
