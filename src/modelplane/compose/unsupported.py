"""Kinds that this build stores and does not reconcile: a condition says so."""

from typing import TypeVar

import msgspec

from modelplane.api.conditions import ConditionType, fails, summarise
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult, keep_observed

Resource = TypeVar("Resource", bound=msgspec.Struct)


def compose(request: ComposeRequest[Resource]) -> ComposeResult:
    message = "this build stores objects of this kind and does not reconcile them"
    problem = fails(ConditionType.ACCEPTED, Reason.NOT_SUPPORTED, message)
    return ComposeResult(desired=keep_observed(request), conditions=(problem,), ready=summarise([problem]))
