"""Names from strangers: none leads out of its folder."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.hydrate.errors import HydrateError
from modelplane.hydrate.paths import check_distinct, safe_path, selected


@given(st.text(st.sampled_from("ab./\\\0\n~é"), max_size=12))
def test_what_is_accepted_stays_below(name):
    try:
        path = PurePosixPath("/volume") / safe_path(name)
    except HydrateError:
        return
    assert path.is_relative_to("/volume")
    assert path != PurePosixPath("/volume")
    assert ".." not in path.parts
    assert path.relative_to("/volume").as_posix() == name


@pytest.mark.parametrize(
    ("paths", "says"),
    [(["a", "b", "a"], "a is in the source twice"), (["a/b", "a"], "a is a file and a folder in the source")],
)
def test_paths_do_not_collide(paths, says):
    with pytest.raises(HydrateError, match=says):
        check_distinct(paths)


@pytest.mark.parametrize(
    ("path", "include", "exclude", "is_selected"),
    [
        ("a.bin", [], [], True),
        ("a.bin", ["*.json"], [], False),
        ("x/y/a.bin", ["*.bin"], [], True),
        ("x/y/a.bin", ["x/"], [], True),
        ("a.bin", ["*.bin"], ["a*"], False),
        ("A.BIN", ["*.bin"], [], False),
    ],
)
def test_patterns_select_as_those_of_huggingface_hub(path, include, exclude, is_selected):
    assert selected(path, include, exclude) is is_selected
