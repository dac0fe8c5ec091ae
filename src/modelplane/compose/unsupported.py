"""Kinds that this build stores and does not reconcile: a condition says so."""

from typing import TypeVar

import msgspec

from modelplane.compose.contract import ComposeRequest, ComposeResult
from modelplane.compose.refusal import refuse

_MESSAGE = (
    "this build stores objects of this kind and does not reconcile them; an InferenceCluster does what they are for"
)
Resource = TypeVar("Resource", bound=msgspec.Struct)


def compose(request: ComposeRequest[Resource]) -> ComposeResult:
    return refuse(request, _MESSAGE)
