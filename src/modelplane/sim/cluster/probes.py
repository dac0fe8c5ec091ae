"""HTTP probes as a kubelet makes them: any status of 200 to 399 is a success."""

import asyncio

from modelplane.sim.cluster.phases import Running

HEALTH = "/health"


async def is_healthy(running: Running, path: str = HEALTH, *, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            return 200 <= await _status(running, path) < 400  # noqa: PLR2004  as the kubelet's documentation writes it
    except (OSError, TimeoutError):
        return False


async def _status(running: Running, path: str) -> int:
    reader, writer = await asyncio.open_connection(running.host, running.port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {running.host}\r\nConnection: close\r\n\r\n".encode())
        words = (await reader.readline()).split(b" ")
        return int(words[1]) if len(words) > 1 and words[1].strip().isdigit() else 0
    finally:
        writer.close()
