"""The sidecar as a program: started, asked, told to end; and what it refuses to start with."""

import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

PROGRAM = (sys.executable, "-m", "modelplane", "picker", "sidecar")
TEXT = ("--zap-encoder", "console")


@pytest.mark.parametrize("group", ["inference.networking.k8s.io", "inference.networking.x-k8s.io"])
def test_it_serves_until_it_is_told_to_end(group):
    """KServe's presets name the group of the alpha."""
    where = ("--host", "127.0.0.1", "--port", "0", "--decoder", "127.0.0.1:9", "--drain", "0")
    started = (*PROGRAM, *where, "--pool-group", group, *TEXT)
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            said = process.stdout.readline()
            address = said.removeprefix("listening on ").strip()
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://{address}/health", timeout=30)
            with refused.value as answer:
                assert (answer.status, b"the local server did not respond" in answer.read()) == (502, True)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--allow", "10.0.0.1"], "'10.0.0.1' is not host:port"),
        (["--decoder", "somewhere"], "'somewhere' is not host:port"),
        (["--data-parallel-size", "9"], "--data-parallel-size must be 1 to 8, not 9"),
        (["--prefill-max-retries", "-1"], "must not be negative"),
        (["--pool-group", "example.org"], "pools of inference.networking.k8s.io are read, not of example.org"),
    ],
)
def test_what_it_does_not_start_with(arguments, why):
    ended = subprocess.run((*PROGRAM, *arguments), capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, why in ended.stderr, "Traceback" in ended.stderr) == (1, True, False)
