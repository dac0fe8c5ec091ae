"""CEL as Kubernetes runs it: device selectors and the validation rules of custom resources."""

from modelplane.dra.cel.device_view import Gates
from modelplane.dra.cel.errors import CompileError
from modelplane.dra.cel.outcome import Evaluation, Outcome
from modelplane.dra.cel.rule import ABSENT, Rule, compile_rule
from modelplane.dra.cel.selector import Selector, compile_selector

__all__ = [
    "ABSENT",
    "CompileError",
    "Evaluation",
    "Gates",
    "Outcome",
    "Rule",
    "Selector",
    "compile_rule",
    "compile_selector",
]
