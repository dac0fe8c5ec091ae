"""Every target under atheris, each in processes of its own, until it has had its share of the processor.

What was found to reach new code is kept in build/fuzz/corpus for the next run, and what a target raised, took too long
or too much memory for in build/fuzz/found: put it under tests/hostile once it is mended.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.fuzz.targets import TARGETS, seeds

KEPT = Path(__file__).resolve().parents[2] / "build" / "fuzz"
LIMITS = ("-timeout=60", "-rss_limit_mb=2048", "-max_len=8192", "-print_final_stats=1")
INPUTS = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
RAISED = re.compile(r"=== Uncaught Python exception: ===\n(.+)|ERROR: libFuzzer: (.+)")
SHORTEST_S = 20.0
"""A process of less does little but import."""


@dataclass(frozen=True)
class Fuzzed:
    """What a target came to."""

    target: str
    inputs: int = 0
    processor_s: float = 0.0
    finding: str = ""


def run_all(minutes):
    share_s = minutes * 60.0 / len(TARGETS)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        fuzzed = [show(each) for each in pool.map(lambda target: fuzz(target, share_s), TARGETS)]
    print(summary(fuzzed))
    return int(any(each.finding for each in fuzzed))


def fuzz(target, share_s):
    done = fuzz_for(target, share_s)
    while not done.finding and share_s > done.processor_s:
        more = fuzz_for(target, max(share_s - done.processor_s, SHORTEST_S))
        done = Fuzzed(target, done.inputs + more.inputs, done.processor_s + more.processor_s, more.finding)
    return done


def fuzz_for(target, seconds):
    corpus, found = KEPT / "corpus" / target, KEPT / "found"
    corpus.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = (*LIMITS, f"-max_total_time={max(int(seconds), 1)}", f"-artifact_prefix={found}/{target}-", str(corpus))
    log = found / f"{target}.log"
    with log.open("w") as output:
        words = [sys.executable, "-m", "tests.fuzz", target, *options]
        child = subprocess.Popen(words, stdout=output, stderr=output)
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    fuzzed = judged(target, child.returncode, log.read_text(errors="replace"))
    return replace(fuzzed, processor_s=used.ru_utime + used.ru_stime)


def judged(target, code, text):
    """Of a process that has ended."""
    inputs = INPUTS.search(text)
    raised = RAISED.search(text)
    finding = ""
    if code or inputs is None:
        finding = next(filter(None, raised.groups())) if raised else f"exit {code}"
    return Fuzzed(target, int(inputs[1]) if inputs else 0, finding=finding)


def show(fuzzed):
    print(f"{fuzzed.target}: {fuzzed.inputs} inputs, {fuzzed.processor_s:.0f} s {fuzzed.finding}".rstrip(), flush=True)
    return fuzzed


def summary(fuzzed):
    minutes = sum(each.processor_s for each in fuzzed) / 60.0
    findings = sum(bool(each.finding) for each in fuzzed)
    inputs = sum(each.inputs for each in fuzzed)
    return f"{len(fuzzed)} targets, {inputs} inputs, {minutes:.1f} minutes of processor, {findings} findings"
