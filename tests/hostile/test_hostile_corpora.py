"""Files of strangers: each is refused at once, in little memory, and in a way that its reader declares.

A file `*.times` spells a long input: a JSON list of texts, each with how often it is repeated.
"""

import gc
import json
import os
import time
import tracemalloc
from pathlib import Path

import pytest

from tests.support.hostile_readers import READERS

FOLDER = Path(__file__).parent
LIMIT_S = 0.1
SLACK = 40 if "COVERAGE_RCFILE" in os.environ else 10
"""Other work shares the processor's caches; the time is CPU time of this process."""
MEMORY_FACTOR = 100
SMALL_BYTES = 16 << 20
"""What a reader may take for any input, however small: a patch may copy 3 MiB, a selector build a text of 32 MiB."""


def files(kind):
    return sorted(path for path in (FOLDER / kind).iterdir() if path.suffix in {".txt", ".bin", ".times"})


def contents(path):
    if path.suffix != ".times":
        return path.read_bytes()
    pieces = json.loads(path.read_text())
    return b"".join(text.encode("utf-8", "surrogatepass") * count for text, count in pieces)


def refused(path, data):
    # A look for garbage in what other tests left behind takes a second.
    gc.disable()
    try:
        started = time.process_time()
        accepted = READERS[path.parent.name](data)
        spent_s = time.process_time() - started
    finally:
        gc.enable()
    assert not accepted, f"{path.name} was accepted"
    assert spent_s <= LIMIT_S * SLACK, f"{path.name} took {spent_s:.2f} s"


def peak_bytes(path, data):
    tracemalloc.start()
    try:
        READERS[path.parent.name](data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", READERS)
def test_every_file_is_refused_at_once(kind):
    for path in files(kind):
        refused(path, contents(path))


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_no_file_takes_more_than_a_hundred_times_its_size(kind):
    for path in files(kind):
        data = contents(path)
        assert peak_bytes(path, data) <= max(MEMORY_FACTOR * len(data), SMALL_BYTES), path.name


def test_there_are_enough_of_each():
    counts = {kind: len(files(kind)) for kind in READERS}
    assert sum(counts.values()) >= 400
    assert min(counts.values()) >= 14
    assert {path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(READERS)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("yaml", b"a: {b: [1, 2]}\n"),
        ("json", b'{"kind": "A", "apiVersion": "v1"}'),
        ("patches", b'[{"op": "add", "path": "/spec/list/-", "value": 3}]'),
        ("patches", b'{"metadata": {"annotations": {"a": null}}}'),
        ("cel", b'device.driver == "d"'),
        ("names", b"chat-7b.example"),
        ("quantities", b"80Gi"),
        ("versions", b"9.0.0"),
        ("urls", b"https://api.example.com/v1"),
        ("templates", b"queue-{{ .Namespace }}"),
        ("ext_proc", b"\x12\x02\x0a\x00"),
        ("h2", b"\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678"),
        ("sse", b'data: {"usage": {"prompt_tokens": 5}}\n\n'),
        ("inference", b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'),
    ],
)
def test_readers_accept_what_is_right(kind, data):
    assert READERS[kind](data)
