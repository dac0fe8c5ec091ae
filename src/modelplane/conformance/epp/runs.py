"""Runs the conformance cases against one picker."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import aiohttp

from modelplane.api.errors import InputError
from modelplane.conformance.epp.bench import SOON_S, Bench, Failure
from modelplane.conformance.epp.controls import PickerUnderTest
from modelplane.conformance.epp.proxy import proxy
from modelplane.conformance.epp.registry import CASES, CaseNeed, ConformanceCase
from modelplane.conformance.epp.trailers import trailer_server
from modelplane.conformance.epp.upstreams import Upstreams

_CASE_S = 60.0


class CaseVerdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """The kit does not have what the case needs."""


class CaseResult(NamedTuple):
    case: ConformanceCase
    verdict: CaseVerdict
    why: str


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
    timeout = aiohttp.ClientTimeout(total=_CASE_S)
    connector = aiohttp.TCPConnector(limit=0)
    with tempfile.TemporaryDirectory(prefix="modelplane-kit-") as folder:
        async with (
            trailer_server() as trailers,
            proxy(Path(folder), picker, upstreams, trailers) as front,
            aiohttp.ClientSession(timeout=timeout, connector=connector) as session,
        ):
            bench = Bench(front, upstreams, session, picker, soon_s=soon_s)
            for case in cases:
                yield await _run(case, bench)


async def _run(case: ConformanceCase, bench: Bench) -> CaseResult:
    missing = [need.value for need in case.needs if not _has(bench, need)]
    if missing:
        return CaseResult(case, CaseVerdict.SKIPPED, missing[0])
    try:
        async with asyncio.timeout(_CASE_S):
            await case.run(bench)
    except Failure as failure:
        return CaseResult(case, CaseVerdict.FAILED, str(failure))
    except TimeoutError:
        return CaseResult(case, CaseVerdict.FAILED, "timed out")
    except (aiohttp.ClientError, OSError, InputError) as error:
        return CaseResult(case, CaseVerdict.FAILED, f"{type(error).__name__}: {error}")
    return CaseResult(case, CaseVerdict.PASSED, "")


def _has(bench: Bench, need: CaseNeed) -> bool:
    pool, process = bench.picker.pool, bench.picker.process
    match need:
        case CaseNeed.POOL:
            return pool is not None
        case CaseNeed.PODS:
            return pool is not None and pool.has_pods and len(bench.pods) > 1
        case CaseNeed.PORTS:
            return any(len(pod) > 1 for pod in bench.pods)
        case CaseNeed.PROCESS:
            return process is not None
