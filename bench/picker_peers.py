"""Runs the conformance kit against the inference extension's Go picker, beside our own, and prints what each did.

    python bench/picker_peers.py > docs/benchmarks/conformance.md

The Go picker gets the kit's three servers as the pods of an InferencePool (`load.pods`); the configuration is the one
of the other benchmarks; it serves plain text, and health on its main port too.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from load.front import addresses
from load.pickers import Which, find_go_picker, picker

from modelplane.conformance.epp.cases import CASES
from modelplane.conformance.epp.runs import CaseResult, CaseVerdict, PickerUnderTest, run_cases
from modelplane.conformance.epp.upstreams import Upstreams

_HEAD = """\
# What the conformance kit found

This page is for whoever writes or chooses an endpoint picker.

`modelplane picker conformance` tries any endpoint picker behind a real Envoy 1.40 (`--list` names its cases). This page
is the output of `python bench/picker_peers.py`: one run of every case against our picker and against the one of the
Gateway API Inference Extension v1.5.0, built from its published module. Both had the same three servers and the same
configuration (queue, KV use and prefix scorers with weights 2, 2 and 3), and spoke plain text; the Go picker ran with
`--health-checking`, without which it tells its health on another port only. What a picker did is quoted as the kit
saw it; nothing here is taken from its sources.

The cases are ours. Some ask for more than the extension's own documents: those describe full duplex streaming only, so
a picker that does not serve Envoy's buffered mode fails `every-mode-is-served` and still keeps its project's promises.
SHOULD marks what operators rely on beside the protocol.
"""


async def _tried(which: Which) -> Mapping[str, CaseResult]:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Upstreams().serving(addresses(3)) as upstreams,
            picker(which, Path(folder), upstreams.addresses) as (port, _),
        ):
            await asyncio.sleep(3)  # time to have read every server's metrics once
            return {
                finding.case.name: finding
                async for finding in run_cases(PickerUnderTest(f"127.0.0.1:{port}", tls=False), upstreams)
            }


def _summary(found: Mapping[str, CaseResult]) -> str:
    passed = sum(finding.verdict is CaseVerdict.PASSED for finding in found.values())
    return f"{passed} of {len(found)}"


async def main() -> None:
    if find_go_picker() is None:
        raise SystemExit("the Go picker is not there: run `python -m lab build picker`")
    ours, theirs = await _tried(Which.OWN), await _tried(Which.GO)
    print(_HEAD)
    print(f"Passed: ours {_summary(ours)}, the Go picker {_summary(theirs)}.\n")
    print("| case | level | ours | Go v1.5.0 | what the Go picker did |\n|---|---|---|---|---|")
    for case in CASES:
        mine, peer = ours[case.name], theirs[case.name]
        why = " ".join(peer.why.split()).replace("|", "\\|")
        print(f"| {case.name} | {case.level} | {mine.verdict} | {peer.verdict} | {why} |")


if __name__ == "__main__":
    asyncio.run(main())
