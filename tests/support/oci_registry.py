"""Debian's docker-registry as a process: the peer of what pushes and pulls images. And Helm, where the lab has it."""

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager

import pytest
import yaml

from lab.build import binary
from lab.components import COMPONENTS
from lab.places import find_places

PASSWORD_LINE = "pusher:$2b$04$cne8YUvnLXqt9TB4jbAKH.Yx4l3e3EBlDntcgatJMLG3MzaIO8k02\n"
LOGIN = ("pusher", "s3cret")


def helm():
    """The program, or the test is skipped: `python -m lab build helm` builds it."""
    built = binary(find_places(os.environ), next(part for part in COMPONENTS if part.name == "helm"))
    found = str(built) if built.is_file() else shutil.which("helm")
    if found is None:
        pytest.skip("there is no helm: python -m lab build helm")
    return found


@contextmanager
def registry(folder, auth=None):
    """Its host and port."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("there is no docker-registry on this machine (Debian's package of that name)")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
    config = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": host},
        **({"auth": auth} if auth else {}),
    }
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([program, "serve", str(folder / "config.yml")], stdout=log, stderr=log)
    try:
        _wait(host)
        yield host
    finally:
        process.terminate()
        process.wait(10)


def _wait(host):
    deadline = time.monotonic() + 20
    while True:
        try:
            urllib.request.urlopen(f"http://{host}/", timeout=1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
