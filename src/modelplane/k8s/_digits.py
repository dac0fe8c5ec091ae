"""Whole numbers and their decimal digits, without CPython's 4,300 digit ceiling and without quadratic surprises.

The interpreter refuses `int(text)` and `str(number)` beyond 4,300 digits. A quantity may have as many digits as its
text has characters, so the conversions here go through blocks that stay below that ceiling.
"""

_BLOCK_DIGITS = 4_000
_BLOCK = 10**_BLOCK_DIGITS
_LOG10_OF_2 = 0.30102999566398120


def parse_digits(digits: str) -> int:
    """The number written as ASCII `digits`; the empty text is zero."""
    if len(digits) <= _BLOCK_DIGITS:
        return int(digits or "0")
    head = len(digits) % _BLOCK_DIGITS
    number = int(digits[:head] or "0")
    for start in range(head, len(digits), _BLOCK_DIGITS):
        number = number * _BLOCK + int(digits[start : start + _BLOCK_DIGITS])
    return number


def format_digits(number: int) -> str:
    """The decimal text of `number`, with a leading minus where it is negative."""
    if number < 0:
        return "-" + format_digits(-number)
    blocks: list[str] = []
    while number >= _BLOCK:
        number, block = divmod(number, _BLOCK)
        blocks.append(str(block).zfill(_BLOCK_DIGITS))
    blocks.append(str(number))
    return "".join(reversed(blocks))


def count_digits(number: int) -> int:
    """How many decimal digits |number| has; zero has one."""
    magnitude = abs(number)
    estimate = max(int((magnitude.bit_length() - 1) * _LOG10_OF_2), 0)
    return estimate + 1 if magnitude < 10 ** (estimate + 1) else estimate + 2
