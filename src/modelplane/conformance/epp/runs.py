"""Runs the conformance cases against one picker."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import aiohttp

from modelplane.conformance.epp.cases import CASES, SOON_S, Bench, ConformanceCase, Failure, PoolControl
from modelplane.conformance.epp.proxy import proxy
from modelplane.conformance.epp.upstreams import Upstreams

_CASE_S = 60.0


class CaseVerdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """The case changes the pool, and the kit cannot."""


class CaseResult(NamedTuple):
    case: ConformanceCase
    verdict: CaseVerdict
    why: str


class PickerUnderTest(NamedTuple):
    """The picker under test, and the pool that it was given."""

    address: str
    tls: bool
    pool: PoolControl | None = None
    """None: the pool cannot be changed."""


async def run_cases(
    picker: PickerUnderTest,
    upstreams: Upstreams,
    cases: Sequence[ConformanceCase] = CASES,
    *,
    soon_s: float = SOON_S,
) -> AsyncIterator[CaseResult]:
    """Yield a result for each case. The upstream servers must be serving.

    `soon_s` is how long the picker may take to follow a change.
    """
    with tempfile.TemporaryDirectory(prefix="modelplane-kit-") as folder:
        async with proxy(Path(folder), picker.address, upstreams, tls=picker.tls) as front:
            timeout = aiohttp.ClientTimeout(total=_CASE_S)
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
                bench = Bench(front, upstreams, session, picker.pool, soon_s=soon_s)
                for case in cases:
                    yield await _run(case, bench)


async def _run(case: ConformanceCase, bench: Bench) -> CaseResult:
    if case.changes_pool and bench.pool_control is None:
        return CaseResult(case, CaseVerdict.SKIPPED, "the kit cannot change the pool")
    try:
        async with asyncio.timeout(_CASE_S):
            await case.run(bench)
    except Failure as failure:
        return CaseResult(case, CaseVerdict.FAILED, str(failure))
    except TimeoutError:
        return CaseResult(case, CaseVerdict.FAILED, "timed out")
    except aiohttp.ClientError as error:
        return CaseResult(case, CaseVerdict.FAILED, f"the connection failed: {type(error).__name__}: {error}")
    return CaseResult(case, CaseVerdict.PASSED, "")
