"""How much memory one value may take.

The cost model does not charge everything by what it produces: one `replace` can turn a few thousand characters into
gigabytes for a handful of units. Upstream would build them; here the evaluation ends instead.
"""

from modelplane.k8s.cel.errors import EvaluationAborted

MAX_TEXT_BYTES = 32 * 2**20
MAX_ELEMENTS = 2_000_000
_WIDEST_CHARACTER = 4


def check_text(characters: int, *, ascii_only: bool) -> None:
    """Ends the evaluation before a text of this length is built, where that is out of all proportion."""
    if characters * (1 if ascii_only else _WIDEST_CHARACTER) > MAX_TEXT_BYTES:
        raise EvaluationAborted(f"a text of {characters} characters is too large")


def check_list(elements: int) -> None:
    """The same for lists."""
    if elements > MAX_ELEMENTS:
        raise EvaluationAborted(f"a list of {elements} elements is too large")
