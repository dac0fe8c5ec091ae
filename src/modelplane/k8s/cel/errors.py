"""Errors of an expression, in three separate kinds.

CompileError       the text is rejected: syntax, types, result, size or cost; has its position
EvaluationError    a value of CEL's own: `||`, `&&`, `all` and `exists` may absorb it
EvaluationAborted  ends the whole evaluation: the budget is spent, or upstream would panic
"""

from modelplane.api.errors import InputError


class CompileError(InputError):
    """An expression that is refused; `line` and `column` count from one, and are zero where no place applies."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"{line}:{column}: {message}" if line else message)
        self.message = message
        self.line = line
        self.column = column


class EvaluationError(Exception):
    """An error value of CEL; logical operators may absorb it."""


class EvaluationAborted(Exception):  # noqa: N818  the counterpart of EvaluationError that nothing absorbs
    """The evaluation ended without a value, and no operator may absorb that."""


class SyntaxFault(Exception):  # noqa: N818  internal: becomes a CompileError once the offset is turned into a place
    """A fault at a code point offset of the source."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


def place(text: str, offset: int) -> tuple[int, int]:
    """The line and column, both from one, of a code point offset."""
    before = text[:offset]
    line = before.count("\n") + 1
    return line, offset - (before.rfind("\n") + 1) + 1
