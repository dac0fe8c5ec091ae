"""The loader is killed at any moment, again and again, until it is done: the bytes are right and little was wasted."""

import hashlib
import json
import os
import random
import signal
import time

import pytest

from modelplane.cli import main
from tests.support.file_server import Faults

ALLOW = ("--outbound-allow", "127.0.0.1/32", "--connections", "4")
MIB = 1 << 20
# `make deep` sets more.
KILLS = int(os.environ.get("MODELPLANE_HYDRATE_KILLS", "3"))


def await_fetching(process):
    """Reads progress until bytes come in."""
    for line in process.stdout:
        if json.loads(line).get("fetched"):
            return


@pytest.mark.slow
@pytest.mark.timeout(60 + 20 * KILLS)
@pytest.mark.submission
def test_killed_until_done_it_is_bit_identical(loader, server):
    content = hashlib.shake_128(b"killed").digest((4 + 3 * KILLS) * MIB)
    url = server.add("/model.bin", content)
    source = {"http": {"url": url, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}"}}
    moments = random.Random(KILLS)  # noqa: S311  moments, not secrets
    for _ in range(KILLS):
        server.faults = Faults(bytes_per_s=MIB // 2)
        process = loader.start(source, *ALLOW)
        await_fetching(process)
        time.sleep(moments.uniform(0, 0.6))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (loader.volume / "model.bin").exists()
    server.faults = Faults()
    done = loader.run(source, *ALLOW)
    assert (done.code, done.errors) == (0, "")
    assert loader.files() == {"model.bin": content}
    assert server.sent - len(content) <= KILLS * 8 * MIB


def test_sigterm_stops_at_once_and_loses_nothing(loader, server):
    content = hashlib.shake_128(b"stopped").digest(4 * MIB)
    source = {"http": {"url": server.add("/model.bin", content)}}
    server.faults = Faults(bytes_per_s=MIB // 4)
    process = loader.start(source, *ALLOW)
    await_fetching(process)
    began = time.monotonic()
    process.terminate()
    output, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (75, "modelplane hydrate: stopped by SIGTERM\n")
    assert time.monotonic() - began < 10
    stopped = json.loads(output.splitlines()[-1])
    assert (stopped["phase"], stopped["reason"]) == ("Failed", "PodFailed")
    server.faults = Faults()
    done = loader.run(source, *ALLOW)
    assert done.code == 0
    assert done.last["fetched"] == len(content) - stopped["bytes"]
    assert loader.files() == {"model.bin": content}


def test_two_loaders_on_one_volume_take_turns(loader, server):
    content = hashlib.shake_128(b"both").digest(MIB)
    source = {"http": {"url": server.add("/model.bin", content)}}
    processes = [loader.start(source, *ALLOW) for _ in range(2)]
    codes = [(process.communicate(timeout=40), process.returncode)[1] for process in processes]
    assert codes == [0, 0]
    assert server.sent <= len(content) + 2
    assert loader.files() == {"model.bin": content}


def test_a_deadline_is_for_now(loader, server):
    url = server.add("/model.bin", bytes(range(256)) * 4096)
    server.faults = Faults(bytes_per_s=64 * 1024)
    done = loader.run({"http": {"url": url}}, *ALLOW, "--deadline", "1")
    assert (done.code, done.errors) == (75, "modelplane hydrate: the deadline passed\n")


def test_the_command_has_its_exit_codes(loader, tmp_path, capsys):
    assert loader.run("{").code == 2
    assert loader.run({"file": {"path": str(tmp_path / "missing")}}).code == 66
    inline = loader.command({"inline": {"filename": "a"}})[3:]
    wrong = (("--connections", "0"), ("--outbound-allow", "a b"), ("--keep-revisions", "-1"))
    assert [main([*inline, *words]) for words in wrong] == [2, 2, 2]
    capsys.readouterr()
    assert (main(inline[:3]), capsys.readouterr().err) == (2, "modelplane hydrate: --source and --into are needed\n")
