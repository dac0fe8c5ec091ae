"""Runs the conformance kit against Go pickers, beside our own, and prints what each did.

    python bench/picker_peers.py > docs/benchmarks/conformance.md

One is the inference extension's, the other, where $MODELPLANE_LLM_D_EPP names its program, that of llm-d. All are
processes that the kit starts, stops and starts again. They know the kit's servers as the pods of an InferencePool at
the kit's own API, and speak plain text. Each has the configuration with which it can do most.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from load.front import free_port
from load.pickers import find_go_picker

from modelplane.conformance.epp import CASES, CaseLevel, CaseResult, CaseVerdict, PickerUnderTest, run_cases
from modelplane.conformance.epp.kube_pool import NAMESPACE, POOL, KubePool
from modelplane.conformance.epp.own import ADDRESSES, CONFIG
from modelplane.conformance.epp.spawned import SpawnedPicker
from modelplane.conformance.epp.upstreams import Upstreams

_GO_CONFIG = """\
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: destination-endpoint-served-verifier
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 3}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: max-score-picker}
"""
_LLM_D_CONFIG = """\
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
featureGates: [prepareDataPlugins]
plugins:
- type: disagg-headers-handler
- type: prefix-cache-scorer
- type: prefix-based-pd-decider
  parameters: {nonCachedTokens: 4000}
- type: disagg-profile-handler
  parameters: {deciders: {prefill: prefix-based-pd-decider}}
- type: decode-filter
- type: prefill-filter
- type: session-affinity-scorer
- type: active-request-scorer
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: destination-endpoint-served-verifier
- type: max-score-picker
schedulingProfiles:
- name: prefill
  plugins:
  - {pluginRef: prefill-filter}
  - {pluginRef: active-request-scorer}
  - {pluginRef: max-score-picker}
- name: decode
  plugins:
  - {pluginRef: decode-filter}
  - {pluginRef: session-affinity-scorer, weight: 10}
  - {pluginRef: active-request-scorer, weight: 2}
  - {pluginRef: queue-scorer, weight: 3}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: max-score-picker}
"""
_LLM_D = "MODELPLANE_LLM_D_EPP"
_HEAD = """\
# What the conformance kit found

This page is for whoever writes or chooses an endpoint picker.

`modelplane picker conformance` tries any endpoint picker behind a real Envoy 1.40 (`--list` names its cases and why).
This page is the output of `python bench/picker_peers.py` on {day}: one run of every case against our picker and two of
Go. That of the Gateway API Inference Extension v1.5.0 was built from its published module (`python -m lab build
picker`). That of llm-d is llm-d-inference-scheduler v0.7.1, built from its module with llm-d-kv-cache v0.9.0 in the
place of v0.7.1, which could not be had; its tokenizer and its precise prefix index, which use that, are not configured
here. Of llm-d-router no module could be had (v0.7.0 to v0.10.1). All were processes that the kit started and stopped,
knew the kit's three servers as two pods of an InferencePool, one of them with two ports, and spoke plain text. Ours had
the configuration of `--self`. The extension's had queue, KV use and prefix scorers with weights 3, 2 and 3 and
`destination-endpoint-served-verifier`; llm-d's beside these `active-request-scorer` 2, `session-affinity-scorer` 10 and
profiles for prefill and decode. Both ran with `--health-checking`, without which they serve their health on another
port only. What a picker did is quoted as the kit saw it; nothing here is taken from its sources. The machine was busy:
no figure of time is on this page.

## How to read it

MUST is the protocol; SHOULD is what operators rely on beside it; MAY is a feature that a picker may lack.

- `every-mode-is-served` was a MUST and is a MAY: the extension's documents describe full duplex streaming only, so a
  picker that does not serve Envoy's buffered mode keeps its project's promises.
- `saturated-pool-is-shed` was a SHOULD and is a MAY: by the extension's documents requests of a negative priority are
  shed, and others wait in the engines' queues.
- `request-trailers` stays a MUST: Envoy's full duplex mode sends trailers after a body that has no end of its own.
- Cases of subsets stay MUSTs: the protocol says that a pick is in the subset, and that addresses there have a port.
- Cases of requests in flight stay SHOULDs. v1.5.0 has `inflight-load-producer` and `token-load-scorer`, and does not
  start with both: "data type mismatch between produced and consumed data for key: InFlightLoadKey".
- `stale-metrics-are-not-believed` stays a SHOULD: nothing promises that numbers age, and without it a server whose
  metrics hang gets nothing for as long as they do.
- `sessions-return` stays a MAY. A further run of that case alone against llm-d showed that the response to the first
  turn had no `x-session-token`, so that the client had nothing to send back.
- `response-trailers` stays a MUST: within 15 s the client behind llm-d v0.7.1 did not get a response whole that ends
  with trailers.
"""


class _Contestant(NamedTuple):
    words: tuple[str, ...]
    config: str


def _own(port: int) -> _Contestant:
    words = (sys.executable, "-m", "modelplane", "picker", "serve", "--pool", f"{NAMESPACE}/{POOL}")
    ports = ("--grpc-port", str(port), "--grpc-health-port", "0", "--metrics-port", "0", "--drain-timeout", "5s")
    return _Contestant((*words, "--host", "127.0.0.1", *ports), CONFIG)


def _extension(port: int) -> _Contestant:
    program = find_go_picker()
    if program is None:
        raise SystemExit("the Go picker is not there: run `python -m lab build picker`")
    return _go(port, str(program), _GO_CONFIG)


def _go(port: int, program: str, config: str) -> _Contestant:
    words = (program, "--pool-name", POOL, "--pool-namespace", NAMESPACE, "--grpc-port", str(port))
    ports = ("--grpc-health-port", str(free_port()), "--metrics-port", str(free_port()))
    switches = ("--metrics-endpoint-auth=false", "--tracing=false", "--health-checking", "-v=1")
    return _Contestant((*words, *ports, *switches), config)


async def _tried(contestant: _Contestant, port: int) -> Mapping[str, CaseResult]:
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "picker.log").open("wb") as log:
        kubeconfig, config = Path(folder) / "kubeconfig", Path(folder) / "config.yaml"
        config.write_text(contestant.config)
        words = (*contestant.words, "--secure-serving=false", "--config-file", str(config))
        async with Upstreams().serving(ADDRESSES) as upstreams, KubePool(upstreams.addresses).serving() as pool:
            pool.write_kubeconfig(kubeconfig)
            environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
            spawned = SpawnedPicker(words, f"127.0.0.1:{port}", environment, log.fileno())
            async with spawned.running() as process:
                await asyncio.sleep(3)  # time to have read every server's metrics once
                target = PickerUnderTest(f"127.0.0.1:{port}", tls=False, pool=pool, process=process)
                return {result.case.name: result async for result in run_cases(target, upstreams)}


def _summary(found: Mapping[str, CaseResult]) -> str:
    parts = []
    for level in CaseLevel:
        results = [result for result in found.values() if result.case.level is level]
        passed = sum(result.verdict is CaseVerdict.PASSED for result in results)
        parts.append(f"{passed} of {len(results)} {level}")
    return ", ".join(parts)


async def main() -> None:
    port = free_port()
    contestants = {"ours": _own(port), "inference extension v1.5.0": _extension(port)}
    if program := os.environ.get(_LLM_D):
        contestants["llm-d v0.7.1"] = _go(port, program, _LLM_D_CONFIG)
    tried = {name: await _tried(contestant, port) for name, contestant in contestants.items()}
    print(_HEAD.format(day=datetime.now(UTC).date()))
    print("".join(f"- {name} passed {_summary(found)}.\n" for name, found in tried.items()))
    print("| case | level |" + "".join(f" {name} |" for name in tried))
    print("|---|---|" + "---|" * len(tried))
    for case in CASES:
        print(f"| {case.name} | {case.level} |" + "".join(f" {_shown(found[case.name])} |" for found in tried.values()))


def _shown(result: CaseResult) -> str:
    why = " ".join(result.why.split()).replace("|", "\\|")
    return f"{result.verdict}: {why}" if why else result.verdict.value


if __name__ == "__main__":
    asyncio.run(main())
