"""Which words of a command line vLLM and SGLang do not know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.sim.engine.known_flags import SGLANG, VLLM, FlagRules, flag_rules_of, unrecognized


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("Qwen/Qwen3-8B", "--max-model-len", "8192"), ()),
        (("--no-such-flag",), ("--no-such-flag",)),
        (("m", "--no-such-flag", "3", "--port", "80"), ("--no-such-flag", "3")),
        (("--max-modell-len=8192",), ("--max-modell-len=8192",)),
        (("--max_model_len", "8192"), ()),
        (("--no-enable-prefix-caching",), ()),
        (("--kv-transfer-config.kv_role", "kv_both"), ()),
        (("--bogus.kv_role", "kv_both"), ("--bogus.kv_role", "kv_both")),
        (("--tensor-parallel", "2"), ()),
        (("-tp", "2", "-O3"), ()),
        (("--bogus", "-1", "-tp", "2"), ("--bogus", "-1")),
    ],
)
def test_vllm(words, expected):
    assert unrecognized(words, VLLM) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--model-path", "m", "--tp", "8", "--enable-metrics", "--dist-init-addr", "a:1"), ()),
        (("--max-model-len", "8192"), ("--max-model-len", "8192")),
    ],
)
def test_sglang(words, expected):
    assert unrecognized(words, SGLANG) == expected


@given(st.lists(st.sampled_from(sorted(VLLM)).map("--{}".format)))
def test_every_option_of_the_table_is_known(words):
    assert unrecognized(words, VLLM) == ()


@given(st.lists(st.text(alphabet="abc-=. 1", max_size=6)))
def test_what_is_not_recognized_is_a_part_of_what_was_given(words):
    found = list(unrecognized(words, SGLANG))
    given_words = iter(words)
    assert all(word in given_words for word in found)


def test_rules_add_and_remove_options():
    rules = flag_rules_of("my-option, !--max_num_seqs,,!")
    assert rules == FlagRules(frozenset({"my-option"}), frozenset({"max-num-seqs"}))
    known = rules.applied(VLLM)
    assert unrecognized(["--my-option", "--max-num-seqs", "4"], known) == ("--max-num-seqs", "4")
    assert str(rules) == "my-option,!max-num-seqs"
    assert rules.with_flag("max-num-seqs").without_flag("my-option") == flag_rules_of("max-num-seqs,!my-option")


_NAMES = st.frozensets(st.from_regex(r"[a-z][a-z0-9]{0,5}(-[a-z0-9]{1,5}){0,2}", fullmatch=True), max_size=4)


@given(_NAMES, _NAMES)
def test_rules_survive_the_annotation(added, removed):
    rules = FlagRules(added, removed)
    assert flag_rules_of(str(rules)) == rules
