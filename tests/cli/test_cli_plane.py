"""The program as users start and stop it: real processes, real signals, a real Envoy, the openai client."""

import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import yaml

from modelplane.cli import main

PROGRAM = Path(sys.executable).with_name("modelplane")
QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
STARTED = []


@pytest.fixture(autouse=True)
def nothing_left():
    """Whatever a test started and did not see end is ended after it."""
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
        process.communicate()


def start(*arguments, **options):
    process = subprocess.Popen(
        [PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    STARTED.append(process)
    return process


def read_until(process, pattern, seconds=200):
    """The output up to the first line that matches; fails when the process ends before."""
    seen, deadline = [], time.monotonic() + seconds
    for line in process.stdout:
        seen.append(line)
        if re.search(pattern, line):
            return "".join(seen)
        assert time.monotonic() < deadline, "".join(seen)
    pytest.fail(f"ended before {pattern!r}:\n{''.join(seen)}")


def children_of(pid):
    """Every process below this one, as Linux tells."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(status.parent.name)
            found += [child, *children_of(child)]
    return found


def gone(pids, seconds=100):
    deadline = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() and "Z" not in _state(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_the_demo_answers_a_request_and_leaves_nothing_behind(tmp_path):
    process = start("demo", env={**os.environ, "TMPDIR": str(tmp_path)})
    output = read_until(process, "POST http")
    children = children_of(process.pid)
    output += process.communicate(timeout=200)[0]
    assert process.returncode == 0, output
    assert re.search(r"response  .*simulated answer from qwen3-8b", output)
    assert re.search(r"served by (east|west)/qwen3-8b-", output)
    assert "streamed  the same prompt, response in 48 chunks" in output
    assert "placement: 1 on east, 1 on west" in output
    assert children
    assert gone(children)
    assert list(tmp_path.iterdir()) == []


def test_a_signal_stops_everything_that_was_started(tmp_path):
    process = start("up", "-f", QUICKSTART, "--data", tmp_path)
    read_until(process, "running; Ctrl-C")
    children = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=200)
    assert (process.returncode, output.strip().splitlines()[-1]) == (130, "stopped")
    assert children
    assert gone(children)


@pytest.mark.submission
def test_a_plane_goes_on_when_another_comes_and_when_nobody_listens_any_more(tmp_path):
    first = start("up", "--data", tmp_path)
    read_until(first, "running; Ctrl-C")
    children = children_of(first.pid)
    second = run("up", "--data", tmp_path)
    assert second.returncode == 1
    already = f"a plane already runs with the data folder {tmp_path} (process {first.pid})"
    assert second.stderr == f"modelplane up: {already}\n"
    first.stdout.close()
    STARTED.remove(first)
    assert call("status", "--data", tmp_path).returncode == 0
    assert call("down", "--data", tmp_path).returncode == 0
    assert first.wait(200) != 0
    assert children
    assert gone(children)


@pytest.mark.submission
def test_a_restart_goes_on_where_the_plane_was(tmp_path):
    first = start("up", "-f", QUICKSTART, "--data", tmp_path)
    before = read_until(first, "ModelService default/chat: Available")
    first.terminate()
    first.communicate(timeout=200)
    again = start("up", "--data", tmp_path)
    after = read_until(again, "ModelService default/chat: Available")
    again.terminate()
    again.communicate(timeout=200)
    assert "continuing with 2 InferenceClusters, 1 ModelDeployment, 1 ModelService" in after
    for line in ("API", "gateway", "page"):
        assert re.search(rf"{line} +(\S+)", before)[1] == re.search(rf"{line} +(\S+)", after)[1]


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def call(*arguments):
    """A command in this process, where everything is imported already."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(each) for each in arguments])
    return Done(code, out.getvalue(), err.getvalue())


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], check=False, capture_output=True, text=True, timeout=200)


def has_every_form(data):
    # A shell's background job ignores Ctrl-C, and so would what it starts.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    watched = start("status", "-w", "-n", "default", "-o", "name", "--data", data)
    signal.signal(signal.SIGINT, before)
    names = read_until(watched, "modelservice.modelplane.ai/chat").split()
    watched.send_signal(signal.SIGINT)
    assert watched.wait(60) == 130
    assert call("status", "-o", "name", "--data", data).stdout.split() == names
    assert [name.partition("/")[0].partition(".")[0] for name in names] == [
        *["inferencecluster"] * 2, "modeldeployment", *["modelreplica"] * 2, "modelservice",
    ]  # fmt: skip
    wide = call("status", "-o", "wide", "--kubeconfig", data / "kubeconfig")
    assert len(re.findall(r"^default/qwen3-8b-\S+ +Ready +sim-[12]$", wide.stdout, re.MULTILINE)) == 2
    as_yaml = yaml.safe_load(call("status", "-A", "-o", "yaml", "--data", data).stdout)
    assert as_yaml == json.loads(call("status", "-o", "json", "--data", data).stdout)
    assert call("cache", "list", "-o", "yaml", "--data", data).stdout == "[]\n"


UNCHANGED = "nothing changes; replicas that stay as they are: 2; --all shows them"


@pytest.mark.submission
def test_status_tells_and_down_ends_a_running_plane(tmp_path, monkeypatch):
    process = start("up", "--clusters", "2", "-f", QUICKSTART / "3-model.yaml", "--data", tmp_path)
    read_until(process, "ModelService default/chat: Available")
    shown = call("status", "--data", tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"^sim-1 +Ready +4 ", shown.stdout, re.MULTILINE)
    assert re.search(r"^default/qwen3-8b +Ready +2 +2 +2 ", shown.stdout, re.MULTILINE)
    assert re.search(r"^default/chat +Ready +2 +2 +http://127.0.0.1:\d+/default/chat", shown.stdout, re.MULTILINE)
    assert shown.stdout.splitlines()[-1] == f"kubeconfig  {tmp_path / 'kubeconfig'}"
    page = re.search(r"^page +(http://127.0.0.1:\d+/\?token=\S+)$", shown.stdout, re.MULTILINE)[1]
    with httpx.Client(follow_redirects=True, timeout=30) as browser:
        assert browser.get(page).status_code == 200
    has_every_form(tmp_path)
    replica = yaml.safe_load(call("fleet", "snapshot", "--data", tmp_path).stdout)["replicas"][0]["metadata"]["name"]
    of_replica = call("explain", f"mr/{replica}", "--data", tmp_path)
    assert of_replica.stdout == call("explain", "md/qwen3-8b", "--data", tmp_path).stdout
    for name, value in (("MODELPLANE_DATA", tmp_path), ("KUBECONFIG", tmp_path / "kubeconfig")):
        with monkeypatch.context() as patch:
            patch.setenv(name, str(value))
            assert call("status").stdout == shown.stdout
            assert call("sim", "show", "sim-1").returncode == 0
            planned = call("plan", "-f", QUICKSTART / "3-model.yaml")
            assert (planned.returncode, planned.stdout.splitlines()[0]) == (0, UNCHANGED)
            assert call("explain", "md/qwen3-8b").stdout == of_replica.stdout
            shutil.copy(tmp_path / "kubeconfig", tmp_path / "copied")
            patch.delenv(name)
            patch.setenv("XDG_STATE_HOME", str(tmp_path))
            patch.setenv("KUBECONFIG", str(tmp_path / "copied"))
            assert call("explain", "md/qwen3-8b").stdout == of_replica.stdout
            alone = call("plan", "-f", QUICKSTART / "3-model.yaml", "--offline")
            assert (alone.returncode, "the fleet has no clusters" in alone.stdout) == (3, True)
    for there in (("--data", tmp_path), ("--kubeconfig", tmp_path / "kubeconfig")):
        taken = call("fleet", "snapshot", *there, "-o", tmp_path / "snapshot.yaml")
        assert taken.returncode == 0, taken.stderr
        explained = call("explain", "deployment", "qwen3-8b", *there)
        assert explained.returncode == 0, explained.stderr
        assert "default/qwen3-8b: FitsNow: 2 of 2 replicas are placed" in explained.stdout
        planned = call("plan", "-f", QUICKSTART / "3-model.yaml", "--all", *there)
        assert (planned.returncode, re.findall(r"^\w+(?= +default)", planned.stdout, re.MULTILINE)) == (0, ["keep"] * 2)
    assert call("replay", tmp_path / "snapshot.yaml").returncode == 0
    ended = call("down", "--data", tmp_path)
    assert (ended.returncode, ended.stdout) == (0, f"stopped the plane of {tmp_path} (process {process.pid})\n")
    process.communicate(timeout=200)
    assert process.returncode == 143
    for command in ("status", "down"):
        again = call(command, "--data", tmp_path)
        assert (again.returncode, again.stderr.count("\n")) == (1, 1)
        assert f"no plane runs with the data folder {tmp_path}" in again.stderr


@pytest.mark.submission
def test_simulated_clusters_stand_beside_those_of_the_quickstart(tmp_path):
    process = start("up", "--clusters", "2", "-f", QUICKSTART, "--data", tmp_path)
    read_until(process, "ModelService default/chat: Available")
    shown = call("status", "--data", tmp_path)
    assert re.findall(r"^(\S+) +Ready +\d+ +\d+ +\d+ +\d+$", shown.stdout, re.MULTILINE) == [
        "east",
        "sim-1",
        "sim-2",
        "west",
    ]
    process.terminate()
    process.communicate(timeout=200)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--data", "/dev/null", "modelplane up: /dev/null: File exists"),
        ("--api-port", "abc", "'abc' is not a port"),
        ("--clusters", "0", "'0' is not a number of clusters"),
    ],
)
def test_a_start_that_cannot_be_is_one_sentence(tmp_path, option, value, says):
    done = run("up", "--data", tmp_path / "plane", option, value)
    assert done.returncode in {1, 2}
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--api-port", pytest.param("--gateway-port", marks=pytest.mark.submission)])
def test_a_port_in_use_is_named(tmp_path, option):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("up", "--data", tmp_path, option, port)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: [", r"modelplane demo: .*bad.yaml:\d+:\d+: "),
        ("apiVersion: modelplane.ai/v1alpha1\nkind: ModelService\nmetadata: {name: a}\nspec: {}\n", "spec.endpoints"),
        pytest.param(
            "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n",
            "no ModelService to send a request to",
            marks=pytest.mark.submission,
        ),
    ],
)
def test_bad_manifests_end_the_demo_with_one_sentence(tmp_path, text, says):
    manifest = tmp_path / "bad.yaml"
    manifest.write_text(text)
    done = subprocess.run([PROGRAM, "demo", "-f", manifest], check=False, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1
    assert re.search(says, done.stderr), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


@pytest.mark.submission
def test_a_plane_places_by_the_profile_that_it_is_given(tmp_path):
    profile = tmp_path / "profile.yaml"
    kept = ["ClusterReady", "Devices", "Capacity", "best-first"]
    profile.write_text(yaml.safe_dump({"kind": "PlacementProfile", "plugins": [{"type": name} for name in kept]}))
    process = start("up", "-f", QUICKSTART, "--data", tmp_path / "plane", "--profile", profile)
    read_until(process, "ModelService default/chat: Available")
    assert re.search(
        r"^default/qwen3-8b .* 2 on east$", call("status", "--data", tmp_path / "plane").stdout, re.MULTILINE
    )
    process.terminate()
    process.communicate(timeout=200)
    profile.write_text("kind: PlacementProfile\nplugins: []")
    refused = run("up", "--data", tmp_path / "plane", "--profile", profile)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "exactly one picker is needed" in refused.stderr
