"""What came of an evaluation."""

import enum
from dataclasses import dataclass


class Outcome(enum.Enum):
    """TRUE and FALSE are answers; ERROR is none, and aborts the allocation that asked."""

    TRUE = "true"
    FALSE = "false"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An outcome; `message` says what went wrong and is empty otherwise."""

    outcome: Outcome
    message: str = ""


TRUE = Evaluation(Outcome.TRUE)
FALSE = Evaluation(Outcome.FALSE)
