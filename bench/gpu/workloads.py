"""What is asked of real engines: four kinds of prompts, the same for every policy by a seed."""

import json
import random
import string
from collections.abc import Iterator
from typing import Final

import msgspec

_LETTERS: Final = string.ascii_lowercase + " "


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    says: str
    prefixes: int = 0
    prefix_tokens: int = 0
    skew: float = 0.0
    """Of the prefixes' popularity: the n-th is asked for in proportion to n to the power of minus this."""
    cold: float = 0.0
    """The share of prompts that have nothing in common with others."""
    question_tokens: int
    answer_tokens: tuple[int, int]


WORKLOADS: Final = {
    each.name: each
    for each in (
        Workload(
            name="groups",
            says="40 prefixes of 4,000 tokens, questions of 300, answers of 32",
            prefixes=40,
            prefix_tokens=4_000,
            question_tokens=300,
            answer_tokens=(32, 32),
        ),
        Workload(
            name="short",
            says="300 tokens, nothing in common, answers of 50 to 150",
            question_tokens=300,
            answer_tokens=(50, 150),
        ),
        Workload(
            name="long",
            says="24 documents of 7,000 tokens, questions of 100, answers of 32 to 96",
            prefixes=24,
            prefix_tokens=7_000,
            question_tokens=100,
            answer_tokens=(32, 96),
        ),
        Workload(
            name="mix",
            says="half of the prompts have one of 24 prefixes of 4,000 tokens, some far more popular than others; "
            "questions of 300, answers of 16 to 120",
            prefixes=24,
            prefix_tokens=4_000,
            skew=0.8,
            cold=0.5,
            question_tokens=300,
            answer_tokens=(16, 120),
        ),
    )
}


def bodies(workload: Workload, seed: int) -> Iterator[bytes]:
    """Without end."""
    chance = random.Random(seed)  # noqa: S311  not a secret
    prefixes = [_text(chance, workload.prefix_tokens) for _ in range(workload.prefixes)]
    weights = [(place + 1) ** -workload.skew for place in range(workload.prefixes)]
    number = 0
    while True:
        warm = prefixes and chance.random() >= workload.cold
        system = chance.choices(prefixes, weights)[0] if warm else ""
        question = f"{number} {_text(chance, workload.question_tokens)}"
        yield _body(system, question, chance.randint(*workload.answer_tokens))
        number += 1


def _text(chance: random.Random, tokens: int) -> str:
    return "".join(chance.choices(_LETTERS, k=tokens))


def _body(system: str, question: str, answer_tokens: int) -> bytes:
    messages = [{"role": "system", "content": system}] if system else []
    body = {
        "model": "demo",
        "stream": True,
        "max_tokens": answer_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "messages": [*messages, {"role": "user", "content": question}],
    }
    return json.dumps(body).encode()
