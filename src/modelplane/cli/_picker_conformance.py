"""`modelplane picker conformance`: try any endpoint picker behind a real Envoy."""

import argparse
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError

if TYPE_CHECKING:
    from modelplane.conformance.epp import CaseResult, ConformanceCase, PickerUnderTest
    from modelplane.conformance.epp.upstreams import Upstreams

_EPILOG = """\
examples:
  modelplane picker conformance --self
  modelplane picker conformance --target 127.0.0.1:9002
  modelplane picker conformance --target picker.example:9002 --pool 10.0.0.5:18101,10.0.0.5:18102,10.0.0.5:18103
  modelplane picker conformance --target 127.0.0.1:9002 --endpoints-file endpoints.yaml
  modelplane picker conformance --target 127.0.0.1:9002 --kubeconfig kubeconfig.json \\
      --pool 127.0.0.1:18101,127.0.0.1:18102,127.0.0.2:18101 \\
      --command 'epp --kubeconfig kubeconfig.json --pool-namespace kit --pool-name pool --config-file config.yaml'

The kit serves the addresses of --pool itself, and starts an Envoy that calls the target. Give the target exactly these
addresses as its pool, in one of three ways: by hand; by the file of --endpoints-file, which the kit writes in the form
of llm-d's file-discovery and changes; or by the InferencePool kit/pool of a small Kubernetes API, for which the kit
writes the file of --kubeconfig. With --command the kit starts the target once the file is there, stops it by SIGTERM
and starts it again. Cases that need what is not given are skipped.
MUST cases are the protocol; SHOULD cases are what operators rely on beside it; MAY cases are features that a picker may
lack. Those about choosing want a picker that counts requests in flight, scrapes queues and KV caches, knows prefixes,
and sheds when 5,000 requests wait at each endpoint; MAY cases say which plugins they want.
Exit codes: 0 every MUST case passed (with --strict every case), 1 one failed.
"""
_POOL = "127.0.0.1:18101,127.0.0.1:18102,127.0.0.1:18103"
_FEWEST = 2


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Tries an endpoint picker, whoever made it, behind a real Envoy and in front of small servers."
    parser.epilog = _EPILOG
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--target", metavar="HOST:PORT", help="the picker's gRPC address")
    target.add_argument("--self", action="store_true", dest="own", help="start our own picker and try that")
    parser.add_argument("--plaintext", action="store_true", help="the target serves without TLS")
    parser.add_argument("--pool", default=_POOL, help="addresses of the pool, with commas (default: %(default)s)")
    pool = parser.add_mutually_exclusive_group()
    pool.add_argument("--endpoints-file", metavar="PATH", help="write the pool to this file, and change it")
    pool.add_argument(
        "--kubeconfig", metavar="PATH", help="serve the pool by a Kubernetes API, and write how to reach it"
    )
    parser.add_argument("--command", default="", metavar="WORDS", help="start the target by these words, and stop it")
    parser.add_argument("--case", action="append", default=[], help="try this case only; may be repeated")
    parser.add_argument("--list", action="store_true", dest="only_list", help="name the cases and why, and try nothing")
    parser.add_argument("--strict", action="store_true", help="fail where a SHOULD or MAY case fails, too")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> int:
    from modelplane.conformance.epp import CASES

    unknown = sorted(set(arguments.case) - {case.name for case in CASES})
    if unknown:
        raise InputError(f"no case {', '.join(unknown)}; --list names them")
    cases = [case for case in CASES if not arguments.case or case.name in arguments.case]
    if arguments.only_list:
        _list(cases, arguments.output)
        return 0
    if not arguments.own and not arguments.target:
        raise InputError("give the picker to try: --target HOST:PORT, or --self for our own")
    if arguments.own and (arguments.command or arguments.kubeconfig or arguments.endpoints_file):
        raise InputError("--command, --kubeconfig and --endpoints-file are for a --target")
    pool = [address.strip() for address in arguments.pool.split(",")]
    if len(pool) < _FEWEST:
        raise InputError(f"--pool: at least {_FEWEST} addresses are needed to tell a choice from chance")
    import asyncio

    findings = asyncio.run(_findings(arguments, pool, cases))
    failed = [finding for finding in findings if finding.verdict == "failed"]
    if arguments.output == "json":
        print(json.dumps([_shown(finding) for finding in findings], indent=2))
    else:
        skipped = sum(finding.verdict == "skipped" for finding in findings)
        tail = f", {skipped} skipped" if skipped else ""
        print(f"{len(findings) - len(failed) - skipped} passed, {len(failed)} failed{tail}")
    return int(any(arguments.strict or finding.case.level == "MUST" for finding in failed))


def _list(cases: "Sequence[ConformanceCase]", output: str) -> None:
    if output == "json":
        shown = [{"case": each.name, "level": each.level.value, "title": each.title, "why": each.why} for each in cases]
        print(json.dumps(shown, indent=2))
        return
    for case in cases:
        print(f"{case.level:<7}{case.name:<42}{case.title}\n{'':<49}{case.why}")


async def _findings(
    arguments: argparse.Namespace, pool: Sequence[str], cases: "Sequence[ConformanceCase]"
) -> "list[CaseResult]":
    from modelplane.conformance.epp import run_cases
    from modelplane.conformance.epp.own import own_target

    async with own_target() if arguments.own else _target(arguments, pool) as (target, upstreams):
        return await _print_findings(run_cases(target, upstreams, cases), arguments)


@asynccontextmanager
async def _target(
    arguments: argparse.Namespace, addresses: Sequence[str]
) -> "AsyncIterator[tuple[PickerUnderTest, Upstreams]]":
    import shlex
    from pathlib import Path

    from modelplane.conformance.epp import PickerUnderTest, PoolControl
    from modelplane.conformance.epp.file_pool import FilePool
    from modelplane.conformance.epp.kube_pool import KubePool
    from modelplane.conformance.epp.spawned import SpawnedPicker
    from modelplane.conformance.epp.upstreams import Upstreams

    async with AsyncExitStack() as stack:
        upstreams = await stack.enter_async_context(Upstreams().serving(addresses))
        pool: PoolControl | None = None
        if arguments.endpoints_file:
            pool = FilePool(Path(arguments.endpoints_file), upstreams.addresses)
        elif arguments.kubeconfig:
            pool = served = await stack.enter_async_context(KubePool(upstreams.addresses).serving())
            served.write_kubeconfig(Path(arguments.kubeconfig))
        process = None
        if arguments.command:
            spawned = SpawnedPicker(shlex.split(arguments.command), arguments.target)
            process = await stack.enter_async_context(spawned.running())
        yield PickerUnderTest(arguments.target, tls=not arguments.plaintext, pool=pool, process=process), upstreams


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
