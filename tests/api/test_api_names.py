import os
import re

from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.names import MAX_LEADER_WORKER_SET, is_dns_label, is_dns_subdomain, make_name

NAMES = int(os.environ.get("MODELPLANE_NAMES", "20000"))
"""How many are made; a deep run makes a million."""
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@given(st.text(max_size=80), st.lists(st.text(max_size=20), min_size=1, max_size=5), st.integers(14, 63))
def test_a_made_name_is_a_dns_1035_label_within_its_limit(readable, parts, limit):
    name = make_name(readable, *parts, limit=limit)
    assert DNS_1035.fullmatch(name)
    assert len(name) <= limit


@given(st.lists(st.text(max_size=8), max_size=4), st.lists(st.text(max_size=8), max_size=4))
def test_names_differ_when_any_part_does(one, other):
    assert (make_name("x", *one) == make_name("x", *other)) == (one == other)


def test_parts_are_not_run_together():
    assert make_name("x", "a", "bc") != make_name("x", "ab", "c")


def test_many_names_are_valid_and_distinct():
    """As replicas are named: few readable parts, and indexes that differ by one."""
    names = [make_name(f"m-{at % 7}", "team", f"m-{at % 7}", "uid", "east", str(at), limit=48) for at in range(NAMES)]
    assert len(set(names)) == NAMES
    assert all(map(is_dns_label, names))


def test_a_name_stays_the_same_for_ever():
    """Renaming a running replica would delete and make it again."""
    assert make_name("qwen3-8b", "default", "qwen3-8b", "uid", "east", "0", limit=MAX_LEADER_WORKER_SET) == (
        "qwen3-8b-ztpkcg57cg"
    )


def test_what_may_be_a_name():
    labels = {"a": True, "a-1": True, "1a": True, "-a": False, "a-": False, "A": False, "a.b": False, "a\n": False}
    assert {text: is_dns_label(text) for text in labels} == labels
    assert [is_dns_label("a" * 63), is_dns_label("a" * 64), is_dns_label("")] == [True, False, False]
    subdomains = {"a.b": True, "a..b": False, ".a": False, "a.": False, "gpu.nvidia.com": True, "a\n": False}
    assert {text: is_dns_subdomain(text) for text in subdomains} == subdomains
    assert [is_dns_subdomain("a" * 253), is_dns_subdomain("a" * 254)] == [True, False]
