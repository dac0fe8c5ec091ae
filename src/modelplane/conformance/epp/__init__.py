"""A conformance kit for endpoint pickers: any server of Envoy's external processing that picks endpoints.

A real Envoy between a client and a few upstream servers calls the picker under test. The kit knows only the picker's
address and that the upstream servers are its pool; it judges every case by what clients and upstream servers see. MUST
cases are the endpoint picker protocol; SHOULD cases are what operators rely on in addition.
"""

from modelplane.conformance.epp import choosing  # noqa: F401  its cases are listed when it is imported
from modelplane.conformance.epp.cases import CASES, CaseLevel, ConformanceCase, PoolControl
from modelplane.conformance.epp.runs import CaseResult, CaseVerdict, PickerUnderTest, run_cases

__all__ = [
    "CASES",
    "CaseLevel",
    "CaseResult",
    "CaseVerdict",
    "ConformanceCase",
    "PickerUnderTest",
    "PoolControl",
    "run_cases",
]
