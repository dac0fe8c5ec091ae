"""Arithmetic that several plugins share."""


def within_unit(value: float) -> float:
    """The nearest number in [0, 1]; 0 for NaN."""
    return 0.0 if not value > 0.0 else min(value, 1.0)


def least_first(number: float, least: float, most: float, /) -> float:
    """1 for the least of all, 0 for the most; 1 where they are one."""
    span = most - least
    return (most - number) / span if span else 1.0


def tokens_of(prompts: tuple[bytes, ...], token_ids: tuple[tuple[int, ...], ...]) -> int:
    """The number of tokens of the prompts; four bytes are a token if there is no tokenizer."""
    if token_ids:
        return sum([len(each) for each in token_ids])
    return ((len(prompts[0]) if len(prompts) == 1 else sum([len(prompt) for prompt in prompts])) + 3) // 4
