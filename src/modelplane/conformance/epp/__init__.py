"""A conformance kit for endpoint pickers: any server of Envoy's external processing that picks endpoints.

A real Envoy stands between a client and a few upstream servers, and asks the picker under test. Nothing is known of the
picker but its address and that the upstream servers are its pool; every case is judged by what clients and upstream
servers see. MUST cases are the endpoint picker protocol; SHOULD cases are what operators rely on beside it.
"""

from modelplane.conformance.epp.cases import CASES, CaseLevel, ConformanceCase
from modelplane.conformance.epp.runs import CaseResult, CaseVerdict, PickerUnderTest, conduct

__all__ = ["CASES", "CaseLevel", "CaseResult", "CaseVerdict", "ConformanceCase", "PickerUnderTest", "conduct"]
