"""How long selectors take to compile and to evaluate, beside the two other implementations that Python has.

Times are of the processor, the best of several rounds, so that a busy machine does not decide them. The others only
take part where a selector needs no function of Kubernetes, which they do not have.
"""

import time
from collections.abc import Callable

import celpy
import celpy.adapter
from cel_expr_python import cel as cel_cpp  # type: ignore[import-untyped]  # it ships no types

from modelplane.k8s.cel import CompileError, compile_selector
from modelplane.k8s.device import Device

_COMPILE_LIMIT_US = 500.0
_EVALUATE_LIMIT_US = 2.0
_HOSTILE_LIMIT_MS = 100.0
_DOMAIN = "gpu.nvidia.com"
_ATTRIBUTES = {"architecture": "Hopper", "type": "gpu", "productName": "NVIDIA H100 80GB HBM3"}
_WRITTEN: dict[str, object] = {
    "attributes": {
        **{name: {"string": text} for name, text in _ATTRIBUTES.items()},
        "cudaComputeCapability": {"version": "9.0.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    },
    "capacity": {"memory": {"value": "80Gi"}, "multiprocessors": {"value": "132"}},
}
_PLAIN = {
    "driver": f'device.driver == "{_DOMAIN}"',
    "attributes": f'device.attributes["{_DOMAIN}"].architecture == "Hopper"'
    f' && device.attributes["{_DOMAIN}"].type == "gpu"',
    "list_and_pattern": f'device.attributes["{_DOMAIN}"].productName in ["NVIDIA H100 80GB HBM3", "NVIDIA H200"]'
    f' && device.attributes["{_DOMAIN}"].productName.matches("^NVIDIA H[12]00.*")',
}
_KUBERNETES = {
    "capacity": f'device.capacity["{_DOMAIN}"].memory.compareTo(quantity("20Gi")) >= 0',
    "version": f'device.attributes["{_DOMAIN}"].cudaComputeCapability.isGreaterThan(semver("8.9.0"))',
    "everything": f'device.driver == "{_DOMAIN}" && has(device.attributes["{_DOMAIN}"].architecture)'
    f' && ["Hopper", "Blackwell"].exists(a, a == device.attributes["{_DOMAIN}"].architecture)'
    f' && cel.bind(c, device.capacity["{_DOMAIN}"], c.memory.compareTo(quantity("70Gi")) >= 0'
    ' && c.multiprocessors.compareTo(quantity("100")) >= 0)',
}
_TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
_HOSTILE = {
    "parentheses": "(" * 249 + "true" + ")" * 249,
    "long_list": "[" + ",".join(["1"] * 4_900) + "].size() == 1",
    "conjunction": "&&".join(["true"] * 1_700),
    "four_loops": f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, {_TEN}.all(d, a + b + c + d >= 0))))",
    "four_loops_with_errors": f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, {_TEN}.all(d, a / 0 >= 0 || true))))",
    "five_loops": f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, {_TEN}.all(d, {_TEN}.all(e, a + b >= 0)))))",
    "five_loops_with_errors": f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, {_TEN}.all(d, {_TEN}.all(e,"
    ' device.attributes["no"].x)))))',
    "printing": '"%s".format([lists.range(900000)]).size() > 0',
    "macro_copies": "optional.of(1)" + ".optMap(x, x)" * 200 + ".hasValue()",
    "pattern": '"' + "a" * 2_000 + '".matches("(a?){1000}a{1000}")',
    "range": "lists.range(900000).size() > 0",
}


def rows() -> list[dict[str, object]]:
    """The figures of compiling and evaluating."""
    device = Device.from_dict(_DOMAIN, _WRITTEN)
    found: list[dict[str, object]] = []
    for name, text in {**_PLAIN, **_KUBERNETES}.items():
        others = _others(text) if name in _PLAIN else {}
        found += (_compiling(name, text, others), _evaluating(name, text, device, others))
    return [*found, *[_hostile(name, text, device) for name, text in _HOSTILE.items()]]


def _compiling(name: str, text: str, others: dict[str, tuple[float, float]]) -> dict[str, object]:
    value = _best(lambda: compile_selector.__wrapped__(text), 100)
    baseline = {other: times[0] for other, times in others.items()} or None
    return _row(f"cel_compile_{name}", value, "us", _COMPILE_LIMIT_US, baseline)


def _evaluating(name: str, text: str, device: Device, others: dict[str, tuple[float, float]]) -> dict[str, object]:
    selector = compile_selector(text)
    value = _best(lambda: selector.evaluate(device), 5_000)
    baseline = {other: times[1] for other, times in others.items()} or None
    return _row(f"cel_evaluate_{name}", value, "us", _EVALUATE_LIMIT_US, baseline)


def _hostile(name: str, text: str, device: Device) -> dict[str, object]:
    def run() -> None:
        try:
            compile_selector.__wrapped__(text).evaluate(device)
        except CompileError:
            return

    return _row(f"cel_hostile_{name}", _best(run, 1, rounds=3) / 1_000, "ms", _HOSTILE_LIMIT_MS, None)


def _row(name: str, value: float, unit: str, limit: float, baseline: dict[str, float] | None) -> dict[str, object]:
    shown = round(value, 3)
    return {"id": name, "value": shown, "unit": unit, "limit": limit, "ok": value <= limit, "baseline": baseline}


def _others(text: str) -> dict[str, tuple[float, float]]:
    """Microseconds to compile and to evaluate, by implementation."""
    return {"cel-expr-python": _cpp_times(text), "cel-python": _celpy_times(text)}


def _cpp_times(text: str) -> tuple[float, float]:
    kinds = cel_cpp.Type
    attributes = kinds.Map(kinds.STRING, kinds.Map(kinds.STRING, kinds.DYN))
    environment = cel_cpp.NewEnv(variables={"device.driver": kinds.STRING, "device.attributes": attributes})
    data = {"device.driver": _DOMAIN, "device.attributes": {_DOMAIN: _ATTRIBUTES}}
    expression = environment.compile(text)
    return _best(lambda: environment.compile(text), 100), _best(lambda: expression.eval(data=data), 1_000)


def _celpy_times(text: str) -> tuple[float, float]:
    environment = celpy.Environment()
    program = environment.program(environment.compile(text))
    data = {"device": celpy.adapter.json_to_cel({"driver": _DOMAIN, "attributes": {_DOMAIN: _ATTRIBUTES}})}
    compile_time = _best(lambda: environment.program(environment.compile(text)), 20)
    return compile_time, _best(lambda: program.evaluate(data), 50)


def _best(work: Callable[[], object], count: int, rounds: int = 5) -> float:
    """Microseconds of processor time for one run, in the best round."""
    work()
    found: list[float] = []
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(count):
            work()
        found.append((time.process_time() - started) / count * 1e6)
    return min(found)
