"""CEL as Kubernetes 1.36 runs it: device selectors and the validation rules of custom resources.

A text becomes tokens, a tree with its macros expanded, a typed tree with an estimated cost, and then up to two
programs that give the same answers: a Python function for expressions whose cost cannot reach the limit, and an
evaluator that absorbs errors and counts the cost as upstream does, to the unit.

Where an answer differs from upstream's, it is one of these:

- Messages of protocol buffers and their enumerations are unknown: `google.protobuf.Int64Value{value: 1}` or
  `google.protobuf.NullValue.NULL_VALUE` does not compile.
- An evaluation that upstream allows but that would take far more than 100 ms here ends with an error: some 100,000
  iterations, 10,000 that raise errors, or lists of 100,000 elements that are searched or printed. So does a text
  above 32 MiB, a copied list above 2,000,000 elements or a pattern with an enormous automaton; nested `optMap` macros
  that would copy an operand thousands of times do not compile. Rules have no such limit but their cost.
- Maps are read in the order they were made; upstream's order is random, and so is any answer that depends on it.
- What `validate` of a format says is worded differently, so the cost of working on those words differs.
- Time zones are those of this machine. A big capacity that an evaluation rounds is not rounded for the next one.
- A rule that reads an absent `oldSelf` fails before it has cost anything.
"""

from modelplane.k8s.cel.device_view import Gates
from modelplane.k8s.cel.errors import CompileError
from modelplane.k8s.cel.outcome import Evaluation, SelectorOutcome
from modelplane.k8s.cel.rule import ABSENT, ValidationRule, compile_rule
from modelplane.k8s.cel.selector import MAX_SELECTORS_LENGTH, CompiledSelector, compile_selector

__all__ = [
    "ABSENT",
    "MAX_SELECTORS_LENGTH",
    "CompileError",
    "CompiledSelector",
    "Evaluation",
    "Gates",
    "SelectorOutcome",
    "ValidationRule",
    "compile_rule",
    "compile_selector",
]
