"""The syntax of names, labels and annotations in Kubernetes: whole texts, ASCII only.

Each function returns what a text must be, or the empty string where it is valid. Patterns match the
whole text: one that ends in `$` would let a trailing line break through.
"""

import re
from typing import Final

from modelplane.api.names import is_dns_label, is_dns_subdomain

NAME_LENGTH: Final = 253
LABEL_LENGTH: Final = 63

_QUALIFIED: Final = re.compile("(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SEGMENT_FORBIDS: Final = ("/", "%")
_ENDS: Final = "starting and ending with a letter or digit"


def fault_in_name(text: str, *, longest: int = NAME_LENGTH) -> str:
    """The name of an object: a DNS subdomain."""
    if len(text) > longest:
        return f"must have at most {longest} characters"
    return "" if is_dns_subdomain(text) else f"must be lower case letters, digits, - and ., {_ENDS}"


def fault_in_prefix(text: str, *, longest: int = NAME_LENGTH) -> str:
    """The start of a generated name: a name that may also end in a dash."""
    return fault_in_name(f"{text[:-1]}a" if len(text) > 1 and text.endswith("-") else text, longest=longest)


def fault_in_namespace(text: str) -> str:
    """The name of a namespace: a DNS label."""
    if len(text) > LABEL_LENGTH:
        return f"must have at most {LABEL_LENGTH} characters"
    return "" if is_dns_label(text) else f"must be lower case letters, digits and -, {_ENDS}"


def fault_in_label_key(text: str) -> str:
    """A name of at most 63 characters, optionally after a DNS subdomain and a slash."""
    prefix, slash, name = text.rpartition("/")
    if slash and fault_in_name(prefix):
        return f"the part before the slash {fault_in_name(prefix)}"
    if len(name) > LABEL_LENGTH:
        return f"the name must have at most {LABEL_LENGTH} characters"
    return "" if _QUALIFIED.fullmatch(name) else f"must be letters, digits, -, _ and ., {_ENDS}"


def fault_in_label_value(text: str) -> str:
    """Empty, or a text like the name of a label."""
    if len(text) > LABEL_LENGTH:
        return f"must have at most {LABEL_LENGTH} characters"
    return "" if not text or _QUALIFIED.fullmatch(text) else f"must be letters, digits, -, _ and ., {_ENDS}"


def fault_in_segment(text: str) -> str:
    """The name of an object of any kind: one segment of a URL's path."""
    if text in {".", ".."} or any(each in text for each in _SEGMENT_FORBIDS):
        return "must be one segment of a path, without / and %"
    return ""
