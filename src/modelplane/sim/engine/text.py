"""The text of a simulated response, and its tokens.

A token is at most eight word characters or one other character, with the blank before it: lossless, cheap, and near the
four characters a token that English has under real vocabularies. Its id is a checksum, so equal texts have equal ids in
every process, and different ones may share one. The answer is a pure function of the seed, the model
and the prompt, so every replica of a model with one seed responds the same and a test can expect it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, islice
from typing import Literal
from zlib import crc32

FinishReason = Literal["stop", "length"]

LONGEST_TOKEN = 9
VOCABULARY = 128_000
"""Ids below are of text, as in Llama 3; those from here on are marks of the chat template."""
_TOKEN = re.compile(r"\s?\w{1,8}|\s?[^\w\s]|\s")
_QUOTED_WORDS = 8
_SENTENCES_BETWEEN = (2, 4)

_SENTENCES = (
    "Prefill reads the whole prompt at once and is bound by compute.",
    "Decode writes one token at a time and is bound by memory bandwidth.",
    "A batch shares one pass over the weights, so a busy engine wastes less of it.",
    "The first token pays for the prompt; every later one pays for the cache it reads.",
    "A long context costs memory for as long as the conversation lasts.",
    "Two replicas on two clusters answer the same question in the same words.",
    "The header x-served-by names the cluster and the pod that wrote this.",
    "Splitting a model over several GPUs trades memory for messages between them.",
    "A request that waits in the queue is visible before it is slow.",
    "Weights that are already staged on a cluster make a replica start sooner.",
    "Routing by prefix lets a second question reuse the cache of the first.",
    "Where this ran was decided by rules that you can ask to explain themselves.",
)


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """The texts to send, why they end, and the tokens that were computed for it: with a stop string, a few more."""

    tokens: tuple[str, ...]
    finish_reason: FinishReason
    generated: tuple[str, ...]


def split_tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


_SENTENCE_TOKENS = tuple(tuple(split_tokens(f" {sentence}")) for sentence in _SENTENCES)


@lru_cache(maxsize=1 << 16)
def token_id(token: str) -> int:
    return crc32(token.encode(errors="surrogatepass")) % VOCABULARY


def token_ids(text: str) -> list[int]:
    return [token_id(token) for token in split_tokens(text)]


def write_answer(*, digest: bytes, model: str, question: str, endless: bool) -> Iterator[str]:
    """Tokens of a short readable response; with `endless` it never stops by itself."""
    yield from split_tokens(f"This is a simulated answer from {model}")
    if question.strip():
        yield from split_tokens(f' to "{_quote(question)}"')
    yield "."
    few, many = _SENTENCES_BETWEEN
    wanted = few + digest[0] % (many - few + 1)
    for number in _pick(digest, None if endless else wanted):
        yield from _SENTENCE_TOKENS[number]


def finish(tokens: Iterator[str], *, max_tokens: int, stops: Sequence[str]) -> GeneratedText:
    """Cut the output as the request requires: at the first stop string, else after `max_tokens`."""
    taken = tuple(islice(tokens, max_tokens))
    if (found := _first_stop("".join(taken), stops)) is not None:
        start, end = found
        needed = 1 + sum(length < end for length in accumulate(map(len, taken)))
        return GeneratedText(_clip(taken, start), "stop", taken[:needed])
    return GeneratedText(taken, "stop" if next(tokens, None) is None else "length", taken)


def prompt_digest(*, seed: int, request_seed: int | None, model: str, prompt: str) -> bytes:
    hashed = blake2b(digest_size=32)
    for part in (str(seed), str(request_seed), model, prompt):
        hashed.update(part.encode(errors="surrogatepass"))
        hashed.update(b"\0")
    return hashed.digest()


def _quote(question: str) -> str:
    words = question.split(maxsplit=_QUOTED_WORDS)
    short = " ".join(word[:24] for word in words[:_QUOTED_WORDS])
    return f"{short} ..." if len(words) > _QUOTED_WORDS else short


def _pick(digest: bytes, wanted: int | None) -> Iterator[int]:
    """Numbers of sentences in an order drawn from the digest, none twice before all were used."""
    order = sorted(range(len(_SENTENCES)), key=lambda index: digest[index + 1 : index + 3])
    position = 0
    while wanted is None or position < wanted:
        yield order[position % len(order)]
        position += 1


def _first_stop(text: str, stops: Sequence[str]) -> tuple[int, int] | None:
    """The start and end of the earliest stop string."""
    found = [(place, place + len(stop)) for stop in stops if stop and (place := text.find(stop)) >= 0]
    return min(found, default=None)


def _clip(tokens: Sequence[str], length: int) -> tuple[str, ...]:
    kept: list[str] = []
    for token in tokens:
        if length <= 0:
            break
        kept.append(token[:length])
        length -= len(token)
    return tuple(kept)
