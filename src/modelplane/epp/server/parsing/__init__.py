"""Parses the body of a request of any supported API.

    paths      the API of a path
    bodies     the fields of each API that the picker reads, and the text of its prompts
    request_types  the types that bodies are decoded into
    path_parsers  parsers of other packages, by path
    text       encodes conversations as bytes with equal beginnings

Bodies are decoded into types with only the needed fields; the rest is only checked to be JSON.
"""

from modelplane.epp.scheduling.parsed import Parsed
from modelplane.epp.server.parsing.bodies import ParseError, parse, rename
from modelplane.epp.server.parsing.path_parsers import PathParsers
from modelplane.epp.server.parsing.paths import find_api

__all__ = ["ParseError", "Parsed", "PathParsers", "find_api", "parse", "rename"]
