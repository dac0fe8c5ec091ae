"""Parsers of other packages, by the paths whose bodies they parse."""

from collections.abc import Iterable

from modelplane.epp.scheduling.parsed import Parsed
from modelplane.epp.scheduling.plugins import Parser
from modelplane.epp.server.parsing.bodies import ParseError
from modelplane.framework import PluginFault
from modelplane.framework.faults import raised


class PathParsers:
    """The first parser that names a path has it."""

    def __init__(self, parsers: Iterable[Parser]) -> None:
        self._by_end: dict[str, Parser] = {}
        for parser in parsers:
            for end in parser.paths:
                self._by_end.setdefault(end.strip("/"), parser)

    def parse(self, path: str, body: bytes) -> Parsed | None:
        """None: no parser has this path. ParseError: the body is not acceptable. PluginFault: the parser is broken."""
        parser = self._find(path)
        if parser is None:
            return None
        try:
            parsed = parser.parse(body)
        except ValueError as error:
            raise ParseError(str(error)) from error
        except Exception as error:
            raise raised(parser.name, error) from error
        if not isinstance(parsed, Parsed):
            raise PluginFault(parser.name, f"returned {parsed!r}, which is no Parsed")
        return parsed

    def _find(self, path: str) -> Parser | None:
        segments = path.partition("?")[0].strip("/").split("/")
        ends = ("/".join(segments[at:]) for at in range(len(segments)))
        return next((self._by_end[end] for end in ends if end in self._by_end), None)
