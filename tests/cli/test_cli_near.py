import pytest

from modelplane.api.errors import InputError, NotFoundError
from modelplane.cli._near import near_name, near_object, note_empty_namespace, suggesting


@pytest.mark.parametrize(
    ("name", "names", "hint"),
    [
        ("qwen3", ["llama", "qwen3-8b"], "; did you mean qwen3-8b?"),
        ("eest", ["west", "east"], "; did you mean east?"),
        ("x", ["a", "b"], "; there is a, b"),
        ("x", list("abcdefg"), "; there is a, b, c, d, e and 2 more"),
        ("x", [], ""),
    ],
)
def test_a_name_that_nothing_has_comes_with_those_that_there_are(name, names, hint):
    assert near_name(name, names) == hint
    with pytest.raises(NotFoundError) as raised, suggesting(lambda: near_name(name, names)):
        raise NotFoundError("not found")
    assert str(raised.value) == f"not found{hint}"


def named(*places):
    return [
        {"metadata": {"namespace": namespace, "name": name}}
        for namespace, _, name in (place.partition("/") for place in places)
    ]


@pytest.mark.parametrize(
    ("name", "namespace", "known", "hint"),
    [
        ("chta", "default", named("default/chat", "team/chta2"), "; did you mean chat?"),
        ("chat", "default", named("team/chat", "default/x"), "; it is in namespace team: add -n team"),
        ("chat", "default", named("b/chat", "a/chat"), "; it is in namespace a and b: add -n a"),
        ("chta", None, named("team/chat"), "; did you mean chat?"),
        ("other", "default", named("team/chat"), "; there is team/chat"),
        ("eest", "", named("/east"), "; did you mean east?"),
        ("other", "default", [], ""),
    ],
)
def test_a_name_of_another_namespace_comes_with_the_namespace(name, namespace, known, hint):
    assert near_object(name, namespace, known) == hint


@pytest.mark.parametrize(
    ("namespace", "says"),
    [
        ("", ""),
        ("team", ""),
        ("taem", "nothing is in namespace taem; did you mean team?\n"),
        ("x", "nothing is in namespace x; there is default, team\n"),
    ],
)
def test_a_namespace_without_objects_is_said(namespace, says, capsys):
    note_empty_namespace(namespace, {"team", "default"})
    assert capsys.readouterr() == ("", says)


def test_names_that_one_may_not_list_are_left_out():
    def forbidden():
        raise InputError("forbidden")

    with pytest.raises(NotFoundError, match=r"^not found$"), suggesting(forbidden):
        raise NotFoundError("not found")
