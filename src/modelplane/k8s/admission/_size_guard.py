"""Refuses a text with too many values without parsing it. This is a limit against hostile texts, not a fast path.

Parsing makes an object of each value, so a reader that counts as it parses has done the work by the time it refuses.
In two plain styles the separators of values can be counted instead. Both counts are lower bounds: where one is too
high, the text has too many values or is not valid at all. Any other text is left to the parser's own count.
"""

import re
from typing import Final

# Enough for any text that is dense; a sparse one of this length is quick to parse up to its limit.
_SCANNED_CHARACTERS: Final = 1_200_000
_FLOW_START: Final = re.compile(r"\s*+[{\[]")
_BLOCK_ENTRY: Final = re.compile(r"^(?:- |[A-Za-z0-9_.-]+: )", re.MULTILINE)
_NEXT_DOCUMENT: Final = ("\n---", "\n...")
# With each string cut down to one quote sign: where strings may start in JSON, and where one is a key.
_STRING_START: Final = re.compile(r"(?:[{\[,]|\"\s*+:)\s*+(?=\")")
_KEY: Final = re.compile(r"\"\s*+:")


def has_too_many_values(text: str, most: int) -> bool:
    """Whether the text has more than `most` values for certain, or is not valid."""
    head = text[:_SCANNED_CHARACTERS]
    if any(sign in head for sign in _NEXT_DOCUMENT):
        return False
    return (_flow_values(head) if _FLOW_START.match(head) else _block_values(head)) > most


def _flow_values(head: str) -> int:
    """Inside brackets and outside of quotes and comments, a comma parts two values and a bracket opens one."""
    if '\\"' in head:
        return 0
    outside = '"'.join(head.split('"')[::2])
    if "'" in outside or "#" in outside or len(_STRING_START.findall(outside)) != outside.count('"'):
        return 0
    return max(outside.count(",") + 1 + len(_KEY.findall(outside)), outside.count("[") + outside.count("{"))


def _block_values(head: str) -> int:
    """Below a list or mapping that starts in the first column, every entry that starts there counts.

    Quotes are excluded, since they let text start in the first column that is no entry.
    """
    if _BLOCK_ENTRY.match(head) is None or "'" in head or '"' in head:
        return 0
    return sum(1 for _ in _BLOCK_ENTRY.finditer(head))
