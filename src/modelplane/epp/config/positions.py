"""The position of a configuration error: file, line and field."""

import re

import msgspec

from modelplane.api.errors import InputError
from modelplane.k8s.admission.layout import Document
from modelplane.k8s.admission.paths import Path, render

_AT = re.compile(r" - at `(?:key in )?\$(.*)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*)`$")
_MISSING = re.compile(r"^Object missing required field `(.*)`$")


class ConfigProblem(msgspec.Struct, frozen=True):
    """One sentence about one place. Line 0: what is missing has no place."""

    source: str
    line: int
    field: str
    sentence: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        return f"{place}: {self.field}: {self.sentence}" if self.field else f"{place}: {self.sentence}"


class ConfigError(InputError):
    """A configuration that cannot be used, with every problem."""

    def __init__(self, problems: tuple[ConfigProblem, ...]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
        self.problems = problems


class ConfigProblems:
    """Findings of one document. Without a document (no configuration at all) they have no line."""

    __slots__ = ("_document", "_source")

    def __init__(self, document: Document | None, source: str) -> None:
        self._document = document
        self._source = source

    def find(self, path: Path, sentence: str) -> ConfigProblem:
        line = self._document.line_of(path) if self._document is not None else 0
        return ConfigProblem(self._source, line, render(path) if path else "", sentence)

    def decode_error(self, base: Path, error: msgspec.ValidationError) -> ConfigProblem:
        """A value that does not fit its struct: msgspec names the field inside, `base` is the path of the struct."""
        unknown = unknown_field(error)
        if unknown:
            return self.find((*base, *unknown), "no such field")
        path, sentence = _split(error)
        missing = _MISSING.match(sentence)
        if missing:
            return self.find((*base, *path, missing[1]), "is required")
        return self.find((*base, *path), sentence[:1].lower() + sentence[1:])


def unknown_field(error: msgspec.ValidationError) -> Path:
    """The path of an unknown field; empty for other problems."""
    path, sentence = _split(error)
    unknown = _UNKNOWN.match(sentence)
    return (*path, unknown[1]) if unknown else ()


def _split(error: msgspec.ValidationError) -> tuple[Path, str]:
    message = str(error)
    at = _AT.search(message)
    return (_steps(at[1]), message[: at.start()]) if at else ((), message)


def _steps(spelled: str) -> Path:
    """`.plugins[0].type` as a path. msgspec writes a map's key as `[...]`."""
    found = _STEP.findall(spelled)
    steps: list[str | int] = []
    for name, index in found:
        if index == "...":
            break
        steps.append(name or int(index))
    return tuple(steps)
