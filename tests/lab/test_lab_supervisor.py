"""Real processes, small ones."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from lab.supervisor import Phase, Program, ProgramError, Supervisor
from tests.support.waiting import until


def file_is_there(path: Path):
    async def probe() -> bool:
        return os.access(path, os.R_OK)

    return probe


def holds_a_line(path: Path):
    """A shell makes the file before it writes: one killed between the two leaves it empty."""

    def written() -> bool:
        return path.exists() and path.stat().st_size > 0

    async def probe() -> bool:
        return written()

    return probe


def touching(name: str, marker: Path, *, after: tuple[str, ...] = ()) -> Program:
    """Adds its pid to a file, then sleeps."""
    return Program(name, ("sh", "-c", f"echo $$ >> {marker}; exec sleep 600"), holds_a_line(marker), after=after)


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def run(scenario) -> None:
    asyncio.run(scenario)


def test_programs_start_once_those_before_them_are_ready(tmp_path):
    async def scenario():
        supervisor = Supervisor(tmp_path)
        first, second = tmp_path / "first", tmp_path / "second"
        later = asyncio.create_task(supervisor.start(touching("second", second, after=("first",))))
        await asyncio.sleep(0.05)
        assert not second.exists()
        await supervisor.start(touching("first", first))
        await later
        assert {name: run.phase for name, run in supervisor.runs.items()} == {
            "first": Phase.READY,
            "second": Phase.READY,
        }
        await supervisor.stop()

    run(scenario())


def test_what_is_killed_is_started_again(tmp_path):
    async def scenario():
        supervisor = Supervisor(tmp_path)
        marker = tmp_path / "marker"
        await supervisor.start(touching("one", marker))
        before = supervisor.runs["one"].pid
        supervisor.kill("one")
        await until(lambda: len(marker.read_text().split()) > 1)
        await supervisor.wait_ready("one")
        assert supervisor.runs["one"].pid not in {None, before}
        assert supervisor.runs["one"].restarts == 1
        await supervisor.stop()

    run(scenario())


def test_what_is_held_stays_down_until_it_is_resumed(tmp_path):
    async def scenario():
        supervisor = Supervisor(tmp_path)
        marker = tmp_path / "marker"
        await supervisor.start(touching("one", marker))
        await supervisor.hold("one")
        await asyncio.sleep(0.3)
        assert (supervisor.runs["one"].phase, supervisor.runs["one"].pid) == (Phase.HELD, None)
        await supervisor.resume("one")
        assert supervisor.runs["one"].phase is Phase.READY
        await supervisor.stop()

    run(scenario())


def test_stop_ends_children_of_children_too(tmp_path):
    async def scenario():
        supervisor = Supervisor(tmp_path)
        marker = tmp_path / "pids"
        script = f"sleep 600 & echo $! $$ > {marker}; wait"
        await supervisor.start(Program("one", ("sh", "-c", script), file_is_there(marker)))
        await until(lambda: len(marker.read_text().split()) == 2)
        await supervisor.stop()
        await until(lambda: not any(alive(int(pid)) for pid in marker.read_text().split()))

    run(scenario())


def test_what_ignores_the_request_is_killed(tmp_path):
    async def scenario():
        supervisor = Supervisor(tmp_path)
        marker = tmp_path / "marker"
        code = f"import signal, time; signal.signal(15, signal.SIG_IGN); open({str(marker)!r}, 'w'); time.sleep(600)"
        await supervisor.start(Program("one", (sys.executable, "-c", code), file_is_there(marker)))
        pid = supervisor.runs["one"].pid
        supervisor.kill("one", 15)
        await asyncio.sleep(0.05)
        assert supervisor.runs["one"].pid == pid
        await supervisor.stop(grace_s=0.1)
        assert not alive(pid)

    run(scenario())


def test_a_program_that_never_serves_fails_with_the_end_of_its_log(tmp_path):
    async def never() -> bool:
        return False

    async def scenario():
        supervisor = Supervisor(tmp_path)
        program = Program("one", ("sh", "-c", "echo no such port; sleep 600"), never, ready_within_s=0.5)
        with pytest.raises(ProgramError, match="one was not ready in time:\nno such port"):
            await supervisor.start(program)
        await supervisor.stop()

    run(scenario())


def test_processes_end_when_the_supervisor_is_killed(tmp_path):
    marker = tmp_path / "pid"
    code = f"""
import asyncio, pathlib
from lab.supervisor import Program, Supervisor
async def main():
    marker = pathlib.Path({str(marker)!r})
    async def ready(): return marker.exists()
    supervisor = Supervisor(pathlib.Path({str(tmp_path)!r}))
    await supervisor.start(Program("one", ("sh", "-c", "echo $$ > {marker}; exec sleep 600"), ready))
    await asyncio.sleep(600)
asyncio.run(main())
"""

    async def scenario():
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=Path.cwd())
        await until(lambda: marker.exists() and marker.read_text().strip())
        process.kill()
        await process.wait()
        await until(lambda: not alive(int(marker.read_text())))

    run(scenario())
