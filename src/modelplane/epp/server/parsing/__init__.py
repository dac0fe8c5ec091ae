"""What a request's body says to the picker, whichever API it speaks.

    paths      which API a path means
    bodies     the fields of each API that matter, and the text of its prompts
    shapes     the types that bodies are decoded into
    text       how conversations become bytes with equal beginnings

Bodies are decoded into types that name only what is needed; the rest is checked to be JSON and not looked at.
"""

from modelplane.epp.server.parsing.bodies import ParseError, parse, rename
from modelplane.epp.server.parsing.paths import find_api
from modelplane.epp.server.parsing.shapes import Parsed

__all__ = ["ParseError", "Parsed", "find_api", "parse", "rename"]
