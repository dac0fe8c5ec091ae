"""A plane as a user has one: a process of its own, reached by kubectl, the program and HTTP only."""

import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.kubectl import find_kubectl

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("modelplane")
PATIENCE_S = 150.0
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == _HERE:
            item.add_marker(pytest.mark.e2e)


class UpPlane:
    """`modelplane up`, running."""

    root = ROOT

    def __init__(self, data, kubectl, *arguments, cwd=ROOT):
        self.data = data
        self.kubeconfig = data / "kubeconfig"
        self._kubectl = kubectl
        command = [PROGRAM, "up", "--data", data, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd)
        self.lines = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def begin(self):
        """Wait until it runs."""
        self.until(lambda: self.said("running; Ctrl-C"))
        self.gateway = self.said(r"gateway +(\S+)")
        self.page = self.said(r"page +(\S+)")

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def output(self):
        return "".join(self.lines)

    def said(self, pattern):
        """The first match in what it printed: its group, or itself."""
        found = re.search(pattern, self.output)
        return found and (found[1] if found.groups() else found[0])

    def until(self, condition, seconds=PATIENCE_S):
        """Wait until a condition holds, and return what it gave."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert self.process.poll() is None, f"the plane ended:\n{self.output}"
            assert time.monotonic() < deadline, f"not in {seconds} s; the plane said:\n{self.output}"
            time.sleep(0.05)
        return found

    def kubectl(self, *arguments, stdin=None, fails=False):
        """What kubectl said."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.data)}
        done = subprocess.run(
            [self._kubectl, *arguments],
            check=False,
            capture_output=True,
            text=True,
            env=environment,
            input=stdin,
            cwd=ROOT,
            timeout=PATIENCE_S + 30,
        )
        said = f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        assert (done.returncode != 0) == fails, f"{said}\nthe plane said:\n{self.output}"
        return done.stdout + done.stderr

    def objects(self, *arguments):
        return json.loads(self.kubectl("get", *arguments, "-o", "json")).get("items", [])

    def ready(self, *names, seconds=PATIENCE_S):
        """Wait by kubectl until these are ready."""
        self.kubectl("wait", "--for=condition=Ready", *names, f"--timeout={seconds:g}s")

    def modelplane(self, command, *arguments):
        """What the program said, its exit code in front."""
        done = subprocess.run(
            [PROGRAM, command, *arguments, "--data", self.data],
            check=False,
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=PATIENCE_S,
        )
        return done.returncode, done.stdout + done.stderr

    def sim(self, *arguments):
        code, said = self.modelplane("sim", *arguments)
        assert code == 0, said
        return said

    def pods(self, cluster):
        """The pods of a cluster by what `sim show` tells: name, node, state, restarts, and why it is not ready."""
        shown = self.sim("show", cluster).partition("\nPOD")[2].partition("\nWARNING")[0].splitlines()[1:]
        return [line.split(maxsplit=4) for line in shown if "/" in line]

    def placed(self, name="qwen3-8b"):
        """How many replicas each cluster has that serve."""
        found = json.loads(self.kubectl("get", "md", name, "-o", "json"))
        return {cluster["name"]: cluster.get("ready", 0) for cluster in found.get("status", {}).get("clusters", ())}

    def stored(self):
        """What the store of a plane that ended holds: the name of the part, and the kind, of every object."""
        with closing(sqlite3.connect(self.data / "plane.db")) as file:
            rows = file.execute("SELECT stores.name, kind FROM objects JOIN stores ON stores.id = objects.store")
            return set(rows.fetchall())

    def listed(self):
        """The kind of every object that the API has."""
        plurals = self.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        return {each["kind"] for each in self.objects(",".join(plurals), "-A")}

    def family(self):
        """Its process and every one below."""
        return [self.process.pid, *_children_of(self.process.pid)]

    def ports(self):
        """Every port that one of them listens on."""
        inodes = {inode for pid in self.family() for inode in _sockets_of(pid)}
        return {port for inode, port in _listening() if inode in inodes}

    def down(self):
        """`modelplane down`, and what it printed to its end."""
        code, said = self.modelplane("down")
        assert code == 0, said
        self.close()
        return said

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        self.process.stdout.close()


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def _children_of(pid):
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            child = int(status.parent.name)
            found += [child, *_children_of(child)]
    return found


def _sockets_of(pid):
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
        except OSError:
            continue
        if found:
            yield found[1]


def _listening():
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A":
            yield fields[9], int(fields[1].rpartition(":")[2], 16)


@pytest.fixture(scope="session")
def kubectl():
    found = find_kubectl()
    if found.path is None:
        pytest.skip(found.reason)
    return found.path


@pytest.fixture
def up(tmp_path, kubectl):
    """Starts planes, and ends those that still run after the test."""
    started = []

    def start(*arguments, data=None):
        plane = UpPlane(data or tmp_path / "plane", kubectl, *arguments)
        started.append(plane)
        plane.begin()
        return plane

    start.root = ROOT
    yield start
    for plane in started:
        plane.close()


@pytest.fixture
def port_is_free():
    return is_free


@pytest.fixture
def gone():
    """Whether processes have ended and ports are closed."""

    def check(pids, ports, seconds=PATIENCE_S):
        deadline = time.monotonic() + seconds
        while not (all(map(is_gone, pids)) and all(map(is_free, ports))):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    return check
