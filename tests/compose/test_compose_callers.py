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
        (secret("z", bob="%"), "Secret z: bob is left out: its value is not one line of text"),
        (secret("z", bob="a2V5%LWI="), "Secret z: bob is left out: its value is not one line of text"),
        (plain("z", bob="two\nlines"), "Secret z: bob is left out: its value is not one line of text"),
        (plain("z", bob=""), "Secret z: bob is left out: its value is not one line of text"),
        (plain("z", bob="ä"), "Secret z: bob is left out: its value is not one line of text"),
        (plain("z", bob="key-a"), "Secret z: bob is left out: another caller has its key"),
        (plain("z", alice="other"), "Secret z: alice is left out: Secret a has a caller of this name"),
        ({"metadata": {"name": "z"}, "data": 7}, "Secret z: it has no entries"),
    ],
)
def test_a_secret_that_cannot_be_used_is_left_out_and_named(item, problem):
    found = read_callers([plain("a", alice="key-a"), item])
    assert (found.callers, found.secrets, found.problems) == ((CallerEntry("alice", "key-a"),), ("a",), (problem,))


def test_an_entry_that_cannot_be_used_takes_no_other_along():
    found = read_callers([plain("a", alice="same", bob="same", carl="", dora="other")])
    assert found == CallerSecrets(
        (CallerEntry("alice", "same"), CallerEntry("dora", "other")),
        ("a",),
        (
            "Secret a: bob is left out: another caller has its key",
            "Secret a: carl is left out: its value is not one line of text",
        ),
    )


def aged(name, year, **data):
    return {"metadata": {"name": name, "creationTimestamp": f"{year}-01-01T00:00:00Z"}, "stringData": data}


def test_a_secret_that_appears_takes_no_caller_and_no_key_of_an_older_one():
    found = read_callers([aged("a", 2027, bob="new", eve="key-b"), aged("m", 2026, bob="key-b")])
    assert found == CallerSecrets(
        (CallerEntry("bob", "key-b"),),
        ("m",),
        (
            "Secret a: bob is left out: Secret m has a caller of this name",
            "Secret a: eve is left out: another caller has its key",
        ),
    )


def test_a_secret_that_is_listed_twice_is_one():
    alice = plain("a", alice="key-a")
    assert read_callers([alice, alice]) == read_callers([alice])


@pytest.mark.parametrize(
    ("entries", "callers"),
    [
        ({"ab": "x" * 449_993}, 1),
        ({"ab": "x" * 449_994}, 0),
        ({"abc": "x" * 449_991}, 1),
        ({"abc": "x" * 449_992}, 0),
        ({"ab": "x" * 449_988, "cd": "yy"}, 2),
        ({"ab": "x" * 449_988, "cd": "yyy"}, 1),
    ],
)
def test_one_secret_is_filled_to_its_last_byte(entries, callers):
    assert len(read_callers([plain("a", **entries)]).callers) == callers


def test_callers_beyond_what_one_secret_holds_are_named():
    """1 MiB of values, 1.5 MiB in all, 256 kiB of annotations."""
    many = [plain(f"secret-{number:05}", **{f"caller-{number:05}": f"key-{number:035}"}) for number in range(8_000)]
    found = read_callers(many)
    # An identity counts thrice, a key twice, and the name of a Secret with a space four times.
    assert len(found.callers) == 900_000 // (3 * 12 + 2 * 39 + 4 * 13)
    assert len(" ".join(found.secrets)) < 256 * 1024
    assert len(found.problems) == 8_000 - len(found.callers)
    assert found.problems[-1] == (
        "Secret secret-07999: caller-07999 is left out: the keys of a gateway fill one Secret, which is full"
    )
