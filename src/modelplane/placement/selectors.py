"""Selectors on device kinds, each pair evaluated once.

A selector reads nothing but the device, so its answer for one shape of device stands. Kubernetes aborts an allocation
when a selector cannot be evaluated on a device that the request considers; that is `ERROR` here, never a silent no.
"""

from functools import lru_cache

from modelplane.api.errors import InputError
from modelplane.k8s.cel import CompileError, Evaluation, SelectorOutcome, compile_selector
from modelplane.k8s.device import Device

_MAX_PAIRS = 65_536
_TRUE = Evaluation(SelectorOutcome.TRUE)


@lru_cache(maxsize=_MAX_PAIRS)
def evaluate_with_work(text: str, device: Device) -> tuple[Evaluation, int]:
    """The evaluation, and the work it took when it was made."""
    try:
        return compile_selector(text, stored=True).evaluate_with_work(device)
    except (CompileError, InputError) as error:
        return Evaluation(SelectorOutcome.ERROR, str(error)), 0


def evaluate(text: str, device: Device) -> Evaluation:
    return evaluate_with_work(text, device)[0]


@lru_cache(maxsize=_MAX_PAIRS)
def meets(selectors: tuple[str, ...], device: Device) -> Evaluation:
    """Whether a device meets all of them: the first answer that is not yes."""
    for text in selectors:
        found = evaluate(text, device)
        if found.outcome is not SelectorOutcome.TRUE:
            return found
    return _TRUE
