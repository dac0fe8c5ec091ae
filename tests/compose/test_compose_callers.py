"""Callers' keys from Secrets."""

import pytest

from modelplane.compose.callers import CallerEntry, CallerSecrets, read_callers


def secret(name, **data):
    return {"metadata": {"name": name}, "data": data}


def plain(name, **data):
    return {"metadata": {"name": name}, "stringData": data}


def test_every_entry_is_a_caller():
    found = read_callers([secret("b", bob="a2V5LWI="), plain("a", alice="key-a\n", anna="key-x")])
    assert found == CallerSecrets(
        (CallerEntry("alice", "key-a"), CallerEntry("anna", "key-x"), CallerEntry("bob", "key-b")), ("a", "b")
    )
    assert "key-a" not in repr(found)
    assert found.callers[0].digest == "f10f781241e2246678b6b45c857069208152a53863e47fac33f607ab405006f4"


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (secret("z"), "Secret z: it has no entries"),
        (secret("z", bob="%"), "Secret z: the value of bob is not one line of text"),
        (plain("z", bob="two\nlines"), "Secret z: the value of bob is not one line of text"),
        (plain("z", bob=""), "Secret z: the value of bob is not one line of text"),
        (plain("z", bob="ä"), "Secret z: the value of bob is not one line of text"),
        (plain("z", bob="key-a"), "Secret z: the key of bob is given twice"),
        (plain("z", alice="other"), "Secret z: alice is given twice"),
        (plain("z", bob="same", carl="same"), "Secret z: the key of carl is given twice"),
        ({"metadata": {"name": "z"}, "data": 7}, "Secret z: it has no entries"),
    ],
)
def test_a_secret_that_cannot_be_used_is_left_out_and_named(item, problem):
    found = read_callers([plain("a", alice="key-a"), item])
    assert (found.callers, found.secrets, found.problems) == ((CallerEntry("alice", "key-a"),), ("a",), (problem,))
