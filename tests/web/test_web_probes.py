"""The probes of the dashboard's pod."""

import asyncio

import aiohttp

from modelplane.web.probes import serve_probes


def test_ready_is_said_when_nothing_is_missing_and_healthy_always():
    missing = {"kind": "modelservices: not served"}

    async def main():
        runner = await serve_probes("127.0.0.1", 0, lambda: missing.get("kind", ""))
        found = []
        try:
            async with aiohttp.ClientSession() as session:
                for path in ("healthz", "readyz", "healthz", "readyz"):
                    url = f"http://127.0.0.1:{runner.addresses[0][1]}/{path}"
                    async with session.get(url) as answer:
                        found.append((answer.status, await answer.text()))
                    if len(found) == 2:
                        missing.clear()
        finally:
            await runner.cleanup()
        return found

    ok = (200, "ok\n")
    assert asyncio.run(main()) == [ok, (503, "modelservices: not served\n"), ok, ok]
