"""A plane in a process of its own, as `modelplane up` starts it, and a client of its API."""

import base64
import contextlib
import os
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import yaml

DEADLINE_S, CONNECTIONS = 120, 4
PROGRAM = Path(sys.executable).with_name("modelplane")


@contextlib.contextmanager
def plane(folder, program=(PROGRAM,)):
    """A plane that has written its kubeconfig; it dies with everything that it started."""
    (folder / "kubeconfig").unlink(missing_ok=True)
    with (folder / "log").open("a") as log:
        process = subprocess.Popen([*program, "up", "--data", folder], stdout=log, stderr=log, start_new_session=True)
    ends = time.monotonic() + DEADLINE_S
    try:
        while not (folder / "kubeconfig").exists():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < ends, (folder / "log").read_text()
            time.sleep(0.02)
        yield process
    finally:
        kill(process)


def kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.asynccontextmanager
async def client(folder):
    config = yaml.safe_load((folder / "kubeconfig").read_text())
    cluster, token = config["clusters"][0]["cluster"], config["users"][0]["user"]["token"]
    trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    async with aiohttp.ClientSession(
        cluster["server"],
        headers={"Authorization": f"Bearer {token}"},
        connector=aiohttp.TCPConnector(ssl=trust, limit=CONNECTIONS),
    ) as session:
        yield session
