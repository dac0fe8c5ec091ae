"""Every command that we show is one that works: the fences of a page, run in their order as a reader would."""

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r".*<<'EOF'\n(?:.*\n)*?EOF$|.+$", re.MULTILINE)
"""A line, or one with the document that it reads."""
PORT = 8080
BASH = shutil.which("bash")
PAGES = (
    "README.md",
    *(
        pytest.param(page, marks=pytest.mark.submission)
        for page in (
            "examples/README.md",
            "docs/simulation.md",
            "docs/rollouts.md",
            "docs/tutorials/ml-engineer.md",
            "docs/tutorials/platform-engineer.md",
            "docs/tutorials/on-call.md",
        )
    ),
)


class Reader:
    """Somebody who types what a page says, in a folder of their own that looks like the repository."""

    def __init__(self, plane_of, root, folder, kubectl):
        self._plane_of = plane_of
        self._root = root
        self._folder = folder
        self.plane = None
        for name in ("examples", ".venv"):
            (folder / name).symlink_to(root / name)
        tools = os.pathsep.join([str(folder / ".venv" / "bin"), str(kubectl.parent), os.environ["PATH"]])
        self._environment = {**os.environ, "PATH": tools, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}

    def type(self, line):
        words = shlex.split(line.partition("\n")[0], comments=True)
        if not words:
            return
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            self._environment[name] = value
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", (self._root / "Makefile").read_text(), re.MULTILINE), line
        elif words[:2] in (["modelplane", "up"], [".venv/bin/modelplane", "up"]):
            self.start(*words[2:])
        else:
            self._run(line.replace("NAMESPACE/POD", self._some_pod()) if "NAMESPACE/POD" in line else line)

    def start(self, *arguments):
        data = arguments[arguments.index("--data") + 1] if "--data" in arguments else "state/modelplane"
        kept = [word for word in arguments if word not in {"--data", data}]
        self.plane = self._plane_of(*kept, data=self._folder / data)

    def _some_pod(self):
        return self.plane.until(lambda: [pod[0] for pod in self.plane.pods("east") if pod[2] == "Ready"])[0]

    def _run(self, line):
        """Once more while something is on its way: a reader types more slowly than this."""
        deadline = time.monotonic() + 90
        while True:
            done = subprocess.run(
                [BASH, "-c", line],
                cwd=self._folder,
                env=self._environment,
                check=False,
                capture_output=True,
                text=True,
                timeout=200,
            )
            shows_answer = "/v1/" in line and "/dev/null" not in line
            if done.returncode == 0 and (not shows_answer or '"object":"' in done.stdout):
                return
            assert time.monotonic() < deadline, f"{line}\n{done.stdout}{done.stderr}"
            time.sleep(0.5)


@pytest.fixture
def port(port_is_free):
    """The port of the pages, for one of them at a time: tests run in several processes."""
    with (Path(tempfile.gettempdir()) / f"modelplane-pages-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not port_is_free(PORT):
            pytest.skip(f"something else listens on port {PORT}, which the pages use")
        yield PORT


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("port")
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work(page, up, kubectl, tmp_path):
    reader = Reader(up, up.root, tmp_path, kubectl)
    text = (up.root / page).read_text()
    lines = [line for fence in FENCE.findall(text) for line in COMMAND.findall(fence)]
    assert lines
    if not any(" up " in f"{line} " for line in lines):
        reader.start("-f", "examples/quickstart")
        reader.plane.ready("md/qwen3-8b", "ms/chat")
    for line in lines:
        reader.type(line)
