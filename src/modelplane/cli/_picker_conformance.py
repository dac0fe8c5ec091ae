"""`modelplane picker conformance`: try any endpoint picker behind a real Envoy."""

import argparse
import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelplane.conformance.epp import CaseResult, ConformanceCase


_EPILOG = """\
examples:
  modelplane picker conformance --self
  modelplane picker conformance --target 127.0.0.1:9002
  modelplane picker conformance --target picker.example:9002 --pool 10.0.0.5:18101,10.0.0.5:18102,10.0.0.5:18103
  modelplane picker conformance --target 127.0.0.1:9002 --endpoints-file endpoints.yaml

The kit serves the addresses of --pool itself, and starts an Envoy that asks the target. Give the target exactly these
addresses as its pool before the run, or the file of --endpoints-file: the kit writes it in the form of llm-d's
file-discovery and changes it. Without the file, cases that change the pool are skipped. MUST cases are the protocol;
SHOULD cases are what operators rely on beside it. Those about choosing want a picker that counts requests in flight,
scrapes queues and KV caches, knows prefixes, and sheds when 5,000 requests wait at each endpoint.
Exit codes: 0 every MUST case passed (with --strict every case), 1 one failed.
"""
_POOL = "127.0.0.1:18101,127.0.0.1:18102,127.0.0.1:18103"
_FEWEST = 2


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Tries an endpoint picker, whoever made it, behind a real Envoy and in front of small servers."
    parser.epilog = _EPILOG
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--target", metavar="HOST:PORT", help="the picker's gRPC address")
    target.add_argument("--self", action="store_true", dest="own", help="start our own picker and try that")
    parser.add_argument("--plaintext", action="store_true", help="the target serves without TLS")
    parser.add_argument("--pool", default=_POOL, help="addresses of the pool, with commas (default: %(default)s)")
    parser.add_argument("--endpoints-file", metavar="PATH", help="a file that the target reads its pool from")
    parser.add_argument("--case", action="append", default=[], help="try this case only; may be repeated")
    parser.add_argument("--list", action="store_true", dest="only_list", help="name the cases and try nothing")
    parser.add_argument("--strict", action="store_true", help="fail where a SHOULD case fails, too")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> int:
    from modelplane.conformance.epp import CASES

    unknown = sorted(set(arguments.case) - {case.name for case in CASES})
    if unknown:
        raise InputError(f"no case {', '.join(unknown)}; --list names them")
    cases = [case for case in CASES if not arguments.case or case.name in arguments.case]
    if arguments.only_list:
        for case in cases:
            print(f"{case.level:<7}{case.name:<42}{case.title}")
        return 0
    pool = [address.strip() for address in arguments.pool.split(",")]
    if len(pool) < _FEWEST:
        raise InputError(f"--pool: at least {_FEWEST} addresses are needed to tell a choice from chance")
    findings = asyncio.run(_findings(arguments, ["127.0.0.1:0"] * 3 if arguments.own else pool, cases))
    failed = [finding for finding in findings if finding.verdict == "failed"]
    if arguments.output == "json":
        print(json.dumps([_shown(finding) for finding in findings], indent=2))
    else:
        skipped = sum(finding.verdict == "skipped" for finding in findings)
        tail = f", {skipped} skipped" if skipped else ""
        print(f"{len(findings) - len(failed) - skipped} passed, {len(failed)} failed{tail}")
    return int(any(arguments.strict or finding.case.level == "MUST" for finding in failed))


async def _findings(
    arguments: argparse.Namespace, pool: Sequence[str], cases: "Sequence[ConformanceCase]"
) -> "list[CaseResult]":
    from pathlib import Path

    from modelplane.conformance.epp import PickerUnderTest, run_cases
    from modelplane.conformance.epp.file_pool import FilePool
    from modelplane.conformance.epp.own import own_picker
    from modelplane.conformance.epp.upstreams import Upstreams

    async with Upstreams().serving(pool) as upstreams:
        if not arguments.own:
            file = arguments.endpoints_file
            control = FilePool(Path(file), upstreams.addresses) if file else None
            target = PickerUnderTest(arguments.target, tls=not arguments.plaintext, pool=control)
            return await _print_findings(run_cases(target, upstreams, cases), arguments)
        async with own_picker(upstreams) as target:
            return await _print_findings(run_cases(target, upstreams, cases), arguments)


async def _print_findings(findings: "AsyncIterator[CaseResult]", arguments: argparse.Namespace) -> "list[CaseResult]":
    seen = []
    async for finding in findings:
        seen.append(finding)
        if arguments.output == "text":
            print(f"{finding.verdict:<7}{finding.case.level:<7}{finding.case.name:<42}{finding.why}", flush=True)
    return seen


def _shown(finding: "CaseResult") -> dict[str, str]:
    case = finding.case
    return {
        "case": case.name,
        "level": case.level.value,
        "title": case.title,
        "verdict": finding.verdict.value,
        "why": finding.why,
    }
