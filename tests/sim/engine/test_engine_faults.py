import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.sim.engine.errors import EngineApiError
from modelplane.sim.engine.faults import (
    NO_FAULT,
    NO_FAULTS,
    Faults,
    RequestFault,
    draw,
    read_faults,
    read_header,
    read_list,
)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("error=503", RequestFault(error=503)),
        ("delay=0.5, drip=0.1", RequestFault(delay_s=0.5, drip_s=0.1)),
        ("cut=0", RequestFault(cut_after=0)),
        ("hang", RequestFault(hang=True)),
        ("crash", RequestFault(crash=True)),
    ],
)
def test_a_request_can_set_its_fault(text, fault):
    assert read_header(text) == fault


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("explode", "header x-sim-fault: 'explode' is not one of crash, cut, delay, drip, error, hang."),
        ("", "header x-sim-fault: '' is not one of crash, cut, delay, drip, error, hang."),
        ("error", "header x-sim-fault: error: '' is not a valid value."),
        ("error=200", "header x-sim-fault: error: '200' is not a valid value."),
        ("delay=-1", "header x-sim-fault: delay: '-1' is not a valid value."),
        ("delay=inf", "header x-sim-fault: delay: 'inf' is not a valid value."),
        ("delay=nan", "header x-sim-fault: delay: 'nan' is not a valid value."),
        ("hang=1", "header x-sim-fault: hang: '1' is not a valid value."),
    ],
)
def test_a_fate_that_is_none_is_refused(text, sentence):
    with pytest.raises(EngineApiError) as caught:
        read_header(text)
    assert (caught.value.status, caught.value.message) == (400, sentence)


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        (b"", NO_FAULTS),
        (b"{}", NO_FAULTS),
        (b'{"error_rate": 0.5, "stalled": true}', Faults(error_rate=0.5, stalled=True)),
    ],
)
def test_faults_are_read_whole(body, faults):
    assert read_faults(body) == faults


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"error_rate": 2}', b'{"error_rates": 1}', b'{"error_status": 200}', b'{"crash_after": 0}']
)
def test_faults_that_are_none_are_refused(body):
    with pytest.raises(EngineApiError) as caught:
        read_faults(body)
    assert caught.value.status == 400


@given(st.text(max_size=20), st.integers(1, 1000))
def test_fates_are_drawn_alike_every_time(identity, number):
    faults = Faults(error_rate=0.5, delay_rate=0.5, cut_rate=0.5, hang_rate=0.5, crash_rate=0.5)
    assert draw(faults, identity=identity, number=number) == draw(faults, identity=identity, number=number)


@given(st.floats(0, 1))
def test_rates_are_kept(rate):
    hit = sum(draw(Faults(error_rate=rate), identity="east/0", number=number).error == 503 for number in range(400))
    assert hit / 400 == pytest.approx(rate, abs=0.12)


def test_kinds_of_faults_are_drawn_apart():
    faults = Faults(error_rate=0.5, hang_rate=0.5)
    fates = {draw(faults, identity="east/0", number=number) for number in range(50)}
    assert len(fates) == 4


def test_nothing_happens_by_default_and_a_crash_at_its_number():
    assert draw(NO_FAULTS, identity="a", number=1) is NO_FAULT
    assert [draw(Faults(crash_after=2), identity="a", number=number).crash for number in (1, 2, 3)] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Faults()),
        ("stalled", Faults(stalled=True)),
        (" error_rate=0.5 , error_status=500,", Faults(error_rate=0.5, error_status=500)),
        ("crash_after=3,stalled=false", Faults(crash_after=3)),
    ],
)
def test_faults_in_a_list(text, expected):
    assert read_list(text) == expected


@pytest.mark.parametrize("text", ["error_rate=2", "error_rate", "nonsense=1", "stalled=perhaps", "delay_s=-1"])
def test_a_list_that_is_none_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match="is not a list of faults"):
        read_list(text)
