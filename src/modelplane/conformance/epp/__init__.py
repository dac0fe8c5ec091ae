"""A conformance kit for endpoint pickers: any server of Envoy's external processing that picks endpoints.

A real Envoy between a client and a few upstream servers calls the picker under test. The kit knows only the picker's
address and that the upstream servers are its pool; it judges every case by what clients and upstream servers see. MUST
cases are the endpoint picker protocol; SHOULD cases are what operators rely on in addition; MAY cases are features that
a picker may lack.

    bench       what a case works with          cases       what a picker does with Envoy's messages
    controls    what of a picker may be changed choosing    what it makes of load and prefixes
    registry    what a case is                  pools       what it makes of endpoints that come and go
    sending     requests, and waiting           features    what it may lack
    runs        runs cases                      stopping    what happens when it stops

Pools of a picker are a file (`file_pool`) or an InferencePool and pods (`kube_pool`).
"""

# Cases are listed when their modules are imported; those that stop the picker are the last.
from modelplane.conformance.epp import cases, choosing, pools, features, stopping  # noqa: F401, I001  see above
from modelplane.conformance.epp.controls import PickerUnderTest, PodState, PoolControl, KitEndpoint, ProcessControl
from modelplane.conformance.epp.registry import CASES, CaseLevel, CaseNeed, ConformanceCase
from modelplane.conformance.epp.runs import CaseResult, CaseVerdict, run_cases

__all__ = [
    "CASES",
    "CaseLevel",
    "CaseNeed",
    "CaseResult",
    "CaseVerdict",
    "ConformanceCase",
    "KitEndpoint",
    "PickerUnderTest",
    "PodState",
    "PoolControl",
    "ProcessControl",
    "run_cases",
]
