"""A run of the kit: everything it needs is started, each case is tried, everything is stopped."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import aiohttp

from modelplane.conformance.epp.cases import CASES, Bench, Case, Failure
from modelplane.conformance.epp.proxy import proxy
from modelplane.conformance.epp.upstreams import Upstreams

_CASE_S = 60.0


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"


class Finding(NamedTuple):
    case: Case
    verdict: Verdict
    why: str


class Picker(NamedTuple):
    """The picker under test, and the pool that it was given."""

    address: str
    tls: bool


async def conduct(picker: Picker, upstreams: Upstreams, cases: Sequence[Case] = CASES) -> AsyncIterator[Finding]:
    """Findings as they come. The upstream servers must be serving."""
    with tempfile.TemporaryDirectory(prefix="modelplane-kit-") as folder:
        async with proxy(Path(folder), picker.address, upstreams, tls=picker.tls) as front:
            timeout = aiohttp.ClientTimeout(total=_CASE_S)
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
                bench = Bench(front, upstreams, session)
                for case in cases:
                    yield await _tried(case, bench)


async def _tried(case: Case, bench: Bench) -> Finding:
    try:
        async with asyncio.timeout(_CASE_S):
            await case.run(bench)
    except Failure as failure:
        return Finding(case, Verdict.FAILED, str(failure))
    except TimeoutError:
        return Finding(case, Verdict.FAILED, f"no end after {_CASE_S:g} s")
    except aiohttp.ClientError as error:
        return Finding(case, Verdict.FAILED, f"the connection broke: {type(error).__name__}: {error}")
    return Finding(case, Verdict.PASSED, "")
