import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.reasons import Reason
from modelplane.compose.causes import FAULTS, MAX_MESSAGE, WORST_FIRST, Cause, in_words, last_line, rank, worst


def test_every_rank_is_one_reason():
    assert len(set(WORST_FIRST)) == len(WORST_FIRST)
    assert [rank(reason) for reason in WORST_FIRST] == list(range(len(WORST_FIRST)))
    assert rank("Available") == rank("no such reason") == len(WORST_FIRST)


def test_a_stage_of_a_start_is_no_fault():
    stages = {Reason.CONTAINER_CREATING, Reason.LOADING_WEIGHTS, Reason.CACHE_STAGING, Reason.WORKLOAD_STARTING}
    assert not stages & FAULTS
    assert {Reason.IMAGE_PULL_FAILED, Reason.CLUSTER_LOST, Reason.UNSCHEDULABLE, Reason.FITS_NOWHERE} <= FAULTS


def test_the_worst_comes_first_and_of_equals_the_oldest():
    loading = Cause(Reason.LOADING_WEIGHTS, "a", "2026-01-01T00:00:00Z")
    late = Cause(Reason.IMAGE_PULL_FAILED, "b", "2026-01-02T00:00:00Z")
    early = Cause(Reason.IMAGE_PULL_FAILED, "c", "2026-01-01T00:00:00Z")
    unknown = Cause(Reason.IMAGE_PULL_FAILED, "a")
    assert worst([loading, late, unknown, early]) is early
    assert worst([]) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("401 for hf_abcdefghijklmnop", "401 for [redacted]"),
        ("HF_TOKEN=abc,x", "HF_TOKEN=[redacted],x"),
        ("password: hunter2; retry", "password: [redacted]; retry"),
        ("AWS_SECRET_ACCESS_KEY=wJalr", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer [redacted]"),
        ("https://bob:pw@registry.example/x", "https://bob:[redacted]@registry.example/x"),
        ("GET /w?X-Amz-Signature=0a1b&n=1", "GET /w?X-Amz-Signature=[redacted]&n=1"),
        ("key sk-abcdefgh1234 is wrong", "key [redacted] is wrong"),
        ('secret "hf-token" not found', 'secret "hf-token" not found'),
        ("couldn't find key token in Secret mp-x/hf", "couldn't find key token in Secret mp-x/hf"),
        ("max_model_len (131072) is too large", "max_model_len (131072) is too large"),
        ("two\n  lines\t here", "two lines here"),
    ],
)
def test_what_looks_like_a_credential_is_not_shown(text, shown):
    assert in_words(text) == shown


def test_what_is_too_long_is_cut_and_what_fits_is_not():
    assert (in_words("abc", 3), in_words("abcd", 3)) == ("abc", "ab…")
    assert len(in_words("a" * 600)) == 512


@given(st.text(max_size=2_000))
def test_words_are_one_bounded_line(text):
    shown = in_words(text)
    assert len(shown) <= MAX_MESSAGE
    assert len(shown.splitlines()) <= 1


def test_a_program_ends_with_its_error():
    assert last_line("Traceback\n  File x\nValueError: no such model\n\n") == "ValueError: no such model"
    assert last_line("") == ""
