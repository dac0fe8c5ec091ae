import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.errors import DocumentError
from modelplane.k8s.admission._size_guard import has_too_many_values
from modelplane.k8s.admission.yaml_reader import read_yaml


@pytest.mark.parametrize(
    "text",
    [
        "[1,1,1,1,1,1]",
        "[1, 1,\n1, 1, 1, 1",
        "[[],[],[],[],[],[]]",
        "[[[[[[[",
        '{"a":1,"b":2,"c":3}',
        '{"a": "x,y", "b" : ["#"], "c": ["d"]}',
        '["a","b","c","d","e","f"]',
        "- 1\n- 2\n- 3\n- 4\n- 5\n- 6\n",
        "a: 1\nb: 2\nc: 3\nd: 4\ne: 5\nf: 6\n",
    ],
)
def test_crowds(text):
    assert has_too_many_values(text, 5)


@pytest.mark.parametrize(
    "text",
    [
        "[1,1,1]",
        '["a,b,c,d,e,f,g"]',
        '["a\\",b,c,d,e,f,g"]',
        "['a,b,c,d,e,f,g']",
        "[a, # b,c,d,e,f,g,h\n]",
        "[]\n---\na: b,c,d,e,f,g,h\n",
        "[]\n...\na, b,c,d,e,f,g,h\n",
        '[a", "x,x,x,x,x,x,x,x"]',
        '[a:", "x,x,x,x,x,x,x,x"]',
        '[a ", "x,x,x,x,x,x,x,x"]',
        "- |\n - 1\n - 2\n - 3\n - 4\n - 5\n",
        "a: |\n  b: 1\n  c: 1\n  d: 1\n  e: 1\n  f: 1\n",
        '- "\n- 1\n- 1\n- 1\n- 1\n- 1\n"\n',
        "text\n- 1\n- 2\n- 3\n- 4\n- 5\n- 6\n",
        "",
    ],
)
def test_no_crowds(text):
    assert not has_too_many_values(text, 5)


WORDS = st.sampled_from(
    [
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        ": ",
        '"',
        "'",
        "#",
        " ",
        "\n",
        "- ",
        "a: ",
        "b",
        "1",
        "\\",
        "|",
        ">",
        "---",
        "...",
        "?",
    ]
)


@given(st.lists(WORDS, max_size=40).map("".join) | st.text(max_size=40), st.integers(0, 12))
def test_no_valid_text_with_few_values_is_a_crowd(text, most):
    if has_too_many_values(text, most):
        assert count(text) > most


def count(text: str) -> float:
    """How many values the parser finds; more than any number where the text is not valid."""
    try:
        documents = read_yaml(text, source="f")
    except DocumentError:
        return float("inf")
    return len(documents[0].layout.starts) if documents else 0
