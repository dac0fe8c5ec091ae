"""The work of all selectors of a deployment is bounded, and what is refused does not depend on what was kept."""

import time

import pytest

from modelplane.k8s.cel import MAX_SELECTORS_LENGTH, compile_selector
from modelplane.k8s.cel.selector import MAX_BYTES
from modelplane.k8s.cel.work_budget import MAX_WORK
from modelplane.k8s.device import Device
from modelplane.placement import selector_budget
from modelplane.placement.hardware import DeviceKind
from modelplane.placement.selector_budget import MAX_SELECTOR_WORK, compile_fault, evaluation_fault
from modelplane.placement.selectors import evaluate_with_work
from modelplane.placement.snapshot import Fleet
from modelplane.testing.fleets import cluster, engine, hardware, pool, request

TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
LOOPS = "".join(f"{TEN}.all(x{level}, " for level in range(5)) + "x0 + x1 >= 0" + ")" * 5
EVERY_ATTRIBUTE = 'device.attributes.exists(d, device.attributes[d].exists(n, n == "i"))'


def kinds(count):
    for index in range(count):
        found = Device.from_dict("d", {"attributes": {"i": {"int": index}}, "capacity": {"q": {"value": f"{index}Gi"}}})
        yield DeviceKind(f"kind-{index}", found, 1, "gpu")


def fleet(count, turned=0):
    clusters = [cluster(f"c{index}", pool("p", of=hardware(kind))) for index, kind in enumerate(kinds(count))]
    return Fleet.of([*clusters[turned:], *clusters[:turned]])


def wanting(*selectors):
    return (engine(request(1, *selectors)),)


def forget():
    compile_selector.cache_clear()
    evaluate_with_work.cache_clear()


def refusal(number, count, kinds_):
    limit = f"{kinds_} kinds of devices take more than {MAX_SELECTOR_WORK} units of work"
    return f"engine main, device request gpu, selector {number} of {count} is too expensive: {limit}"


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        pytest.param((10, MAX_SELECTORS_LENGTH - 10), None, id="as long as they may be"),
        pytest.param(
            (10, MAX_SELECTORS_LENGTH - 9),
            "engine main, device request gpu, selector 2 of 2 is too expensive: "
            f"different selectors have more than {MAX_SELECTORS_LENGTH} characters in all",
            id="one character more",
        ),
    ],
)
def test_selectors_have_a_length_in_all(monkeypatch, lengths, expected):
    monkeypatch.setattr("modelplane.placement.selector_budget.compile_selector", lambda _text, stored: stored)
    assert compile_fault(wanting(*[f"{'true':<{length}}" for length in lengths])) == expected


@pytest.mark.parametrize(
    ("selectors", "count", "expected"),
    [
        pytest.param(("true",), 0, None, id="no device"),
        pytest.param(('device.driver == "d"',), 200, None, id="a plain selector on many kinds"),
        pytest.param((EVERY_ATTRIBUTE,) * 8, 100, None, id="a loop over what devices have"),
        pytest.param((LOOPS, "true"), 5, None, id="few evaluations that are long"),
        pytest.param(("true", LOOPS), 10, refusal(2, 2, 10), id="many evaluations that are long"),
        pytest.param((" " * MAX_BYTES + "true",), 2, None, id="one that is longer than a new claim may have it"),
        pytest.param(tuple(LOOPS + " " * n for n in range(8)), 2, refusal(3, 8, 2), id="many selectors that are long"),
    ],
)
def test_selectors_share_one_budget_of_work(selectors, count, expected):
    assert evaluation_fault(wanting(*selectors), fleet(count)) == expected


@pytest.mark.slow
def test_the_answer_does_not_depend_on_what_was_evaluated_before_or_on_the_order_of_the_fleet():
    asked = wanting(*(LOOPS + " " * number for number in range(3)))
    found = []
    for turned in range(3):
        forget()
        found += [evaluation_fault(asked, fleet(4, turned)), evaluation_fault(asked, fleet(4, turned))]
    assert set(found) == {refusal(2, 3, 4)}


def test_a_refused_deployment_costs_no_more_than_the_budget_and_one_evaluation():
    forget()
    started = time.process_time()
    texts = [LOOPS + " " * number for number in range(8)]
    assert evaluation_fault(wanting(*texts), fleet(10)) is not None
    assert time.process_time() - started < 3.0  # 0.5 s where nothing else runs
    done = evaluate_with_work.cache_info().currsize
    assert done <= MAX_SELECTOR_WORK // (MAX_WORK // 2) + 1


@pytest.mark.parametrize(("less", "expected"), [(0, None), (1, "is too expensive: 5 kinds of devices take more than")])
def test_all_of_the_budget_may_be_used(monkeypatch, less, expected):
    work = sum(evaluate_with_work(EVERY_ATTRIBUTE, found.device)[1] for found in kinds(5))
    monkeypatch.setattr(selector_budget, "MAX_SELECTOR_WORK", work - less)
    assert evaluation_fault(wanting(EVERY_ATTRIBUTE), fleet(5)) == (
        expected and f"engine main, device request gpu {expected} {work - less} units of work"
    )


def test_a_selector_that_is_written_twice_counts_once():
    assert evaluation_fault(wanting(*(LOOPS,) * 8), fleet(5)) is None


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        pytest.param(("true",), None, id="one that compiles"),
        pytest.param((" " * MAX_BYTES + "true",), None, id="one that is longer than a new claim may have it"),
        pytest.param(
            ("1",), "engine main, device request gpu: must evaluate to bool or the unknown type, not int", id="one"
        ),
        pytest.param(
            ("true", "1"),
            "engine main, device request gpu, selector 2 of 2: must evaluate to bool or the unknown type, not int",
            id="of two",
        ),
        pytest.param(
            tuple(f'device.driver != "{number:9000}"' for number in range(8)),
            "engine main, device request gpu, selector 3 of 8 is too expensive: "
            "different selectors have more than 20480 characters in all",
            id="too many characters",
        ),
    ],
)
def test_selectors_that_do_not_compile(selectors, expected):
    assert compile_fault(wanting(*selectors)) == expected
