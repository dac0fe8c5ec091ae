"""Prompts by a seed: the same for every contestant."""

import json
import random
from collections.abc import Iterator
from itertools import count

_TEXT = (
    "batch cache decode engine fleet gateway header index joint kernel layer model node object prompt queue replica "
    "score token unit vector weight answer block choose divide expect follow group handle inside latency memory number"
)
_WORDS = tuple(_TEXT.split(" "))
"""A token each for the simulated engines."""


def words(chance: random.Random, tokens: int) -> str:
    return " ".join(chance.choices(_WORDS, k=tokens))


def chat(model: str, system: str, user: str, max_tokens: int, *, stream: bool) -> bytes:
    body: dict[str, object] = {
        "model": model,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "stream": stream,
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    return json.dumps(body).encode()


def short_chats(model: str, *, seed: int, stream: bool = False, max_tokens: int = 100) -> Iterator[bytes]:
    """200 tokens, no two alike: a fifth is the system's message, of which there are twenty."""
    chance = random.Random(seed)  # noqa: S311  not a secret
    systems = [words(chance, 40) for _ in range(20)]
    for number in count():
        yield chat(model, chance.choice(systems), f"{number} {words(chance, 150)}", max_tokens, stream=stream)


def large_chats(model: str, *, seed: int, size: int = 220_000, kinds: int = 20) -> Iterator[bytes]:
    """Long documents with a question about them: twenty documents, asked about again and again."""
    chance = random.Random(seed)  # noqa: S311  not a secret
    documents = [words(chance, size // 6)[: size - 300] for _ in range(kinds)]
    for number in count():
        yield chat(model, chance.choice(documents), f"Question {number}?", 10, stream=False)
