"""The outcome of an evaluation."""

import enum
from dataclasses import dataclass

from modelplane.k8s.cel.values import Optional, runtime_type


class SelectorOutcome(enum.Enum):
    """TRUE and FALSE are results; ERROR aborts the allocation."""

    TRUE = "true"
    FALSE = "false"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An outcome; `message` describes the error and is empty otherwise."""

    outcome: SelectorOutcome
    message: str = ""


TRUE = Evaluation(SelectorOutcome.TRUE)
FALSE = Evaluation(SelectorOutcome.FALSE)


def as_evaluation(value: object) -> Evaluation:
    """A result as an outcome; only a bool is one."""
    if value is True:
        return TRUE
    if value is False:
        return FALSE
    if isinstance(value, Optional) and isinstance(value.value, bool):
        return as_evaluation(value.value)
    return Evaluation(SelectorOutcome.ERROR, f"the result is of type {runtime_type(value).name}, not bool")
