"""As many requests as a chain takes: by `wrk` where it is installed, since it costs least, else by our own client."""

import asyncio
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from load.client import closed_loop, post

_SCRIPT = """\
local parts = {}
for line in io.lines("BODIES") do parts[#parts + 1] = line end
local headers = {["content-type"] = "application/json", ["user-agent"] = "OpenAI/Python 2.0",
                 ["authorization"] = "Bearer token"}
local made, at = {}, 0
function init()
  for i, body in ipairs(parts) do made[i] = wrk.format("POST", "/v1/chat/completions", headers, body) end
end
function request() at = at % #made + 1; return made[at] end
"""
_KEPT = 400


class Taken(msgspec.Struct, frozen=True):
    requests: int
    seconds: float


async def saturate(
    folder: Path, port: int, bodies: Iterator[bytes], *, connections: int, seconds: float, kept: int = _KEPT
) -> Taken:
    """Ask the first `kept` of these again and again."""
    if shutil.which("wrk") is None:
        questions = [post(next(bodies)) for _ in range(kept)]
        began = time.perf_counter()
        samples = await closed_loop(port, _around(questions), connections=connections, seconds=seconds)
        return Taken(len(samples), time.perf_counter() - began)
    listed, script = folder / f"bodies-{port}", folder / f"script-{port}.lua"
    listed.write_bytes(b"\n".join(next(bodies) for _ in range(kept)))
    script.write_text(_SCRIPT.replace("BODIES", str(listed)))
    words = ("wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--timeout", "30s", "-s", str(script))
    process = await asyncio.create_subprocess_exec(*words, f"http://127.0.0.1:{port}", stdout=asyncio.subprocess.PIPE)
    said = (await process.communicate())[0].decode()
    found = re.search(r"(\d+) requests in ([\d.]+)(m?)s", said)
    if process.returncode or found is None or "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(f"wrk failed: {said}")
    return Taken(int(found[1]), float(found[2]))


def _around(questions: list[bytes]) -> Iterator[bytes]:
    while True:
        yield from questions
