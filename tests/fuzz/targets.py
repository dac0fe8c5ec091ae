"""Fuzz targets: each takes any bytes, and what it raises is a defect.

`make test` runs each on some mutations of the corpora under tests/hostile; `make deep-fuzz` runs all under atheris, and
`python -m tests.fuzz TARGET` one.
"""

import json
from pathlib import Path

from modelplane.apiserver.protobuf import read_protobuf
from modelplane.compose.placeholders import PlaceholderValues, expand
from modelplane.epp.datalayer.scrape.responses import BadResponse, ResponseReader
from modelplane.epp.transport.h2.hpack import Decoder, HpackError, TooLongError
from tests.support import hostile_readers as readers

CORPORA = Path(__file__).parent.parent / "hostile"
_SHORT_BYTES = 4096


def fuzz_yaml(data: bytes) -> None:
    readers.read_yaml(data)


def fuzz_json(data: bytes) -> None:
    readers.read_json_object(data)


def fuzz_patch(data: bytes) -> None:
    readers.read_patch(data)


def fuzz_cel(data: bytes) -> None:
    readers.read_cel(data)


def fuzz_quantity(data: bytes) -> None:
    readers.read_quantity(data)
    readers.read_version(data)


def fuzz_name(data: bytes) -> None:
    readers.read_name(data)


def fuzz_url(data: bytes) -> None:
    readers.read_url(data)


def fuzz_template(data: bytes) -> None:
    text = readers.text_of(data)
    if text is not None and readers.read_template(data):
        assert "{{" not in expand(text, PlaceholderValues("n", "n", "r", "c", "p", "0"))


def fuzz_ext_proc(data: bytes) -> None:
    readers.read_ext_proc(data)


def fuzz_h2(data: bytes) -> None:
    readers.read_h2(data)


def fuzz_hpack(data: bytes) -> None:
    try:
        Decoder(16_384).read(data)
    except (HpackError, TooLongError):
        return


def fuzz_sse(data: bytes) -> None:
    readers.read_sse(data)


def fuzz_inference_body(data: bytes) -> None:
    readers.read_inference_body(data)


def fuzz_kubeconfig(data: bytes) -> None:
    readers.read_kubeconfig(data)


def fuzz_cache_source(data: bytes) -> None:
    readers.read_cache_source(data)


def fuzz_source_answer(data: bytes) -> None:
    readers.read_source_answer(data)


def fuzz_protobuf(data: bytes) -> None:
    try:
        read_protobuf(data)
    except ValueError:
        return


def fuzz_scrape_response(data: bytes) -> None:
    reader = ResponseReader(1 << 20)
    try:
        reader.feed(data)
    except BadResponse:
        return


TARGETS = {name.removeprefix("fuzz_"): value for name, value in list(globals().items()) if name.startswith("fuzz_")}
_CORPUS_OF = {
    "patch": "patches", "quantity": "quantities", "name": "names", "url": "urls", "template": "templates",
    "hpack": "h2", "inference_body": "inference", "kubeconfig": "kubeconfigs", "protobuf": "ext_proc",
    "scrape_response": "sse", "cache_source": "sources", "source_answer": "sources",
}  # fmt: skip


def seeds(target: str) -> list[bytes]:
    """Short inputs to begin with."""
    folder = CORPORA / _CORPUS_OF.get(target, target)
    short = [path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in {".txt", ".bin"}]
    long = (json.loads(path.read_text()) for path in sorted(folder.glob("*.times")))
    repeated = ["".join(text * min(count, 100) for text, count in pieces).encode() for pieces in long]
    return [seed for seed in (*short, *repeated) if len(seed) <= _SHORT_BYTES]
