import pytest

from modelplane.k8s.cel import CompileError, compile_selector


@pytest.mark.parametrize(
    "text",
    [
        "duration('1h') == duration('1h')",
        "timestamp('2020-01-01T00:00:00Z') == timestamp(0)",
        "'a'.matches('a+')",
        "'%s'.format([['a', 1]]) == ''",
        "'%s %d'.format(['a', 1]) == ''",
        "dyn('%d').format(['a']) == ''",
        "[dyn(1), dyn('a')].size() == 2",
        "[[], [1]].size() == 2",
    ],
)
def test_accepted(text):
    compile_selector(text, stored=True)


@pytest.mark.parametrize(
    "text",
    [
        "duration('1') == duration('1h')",
        "timestamp('x') == timestamp(0)",
        "'a'.matches('(')",
        "matches('(', 'a')",
        "[1, 'a'].size() == 2",
        "[1, dyn(2)].size() == 2",
        "{'a': 1, 1: 1}.size() == 2",
        "{'a': 1, 'b': 'x'}.size() == 2",
        "[[1], ['a']].size() == 2",
        "[?dyn(1)].size() == 1",
        "{?'a': dyn(1)}.size() == 1",
        "'%d'.format(['a']) == ''",
        "'%d'.format([1, 2]) == ''",
        "'%d %d'.format([1]) == ''",
        "'%s'.format([[optional.of(1)]]) == ''",
        "'%s'.format([{'a': quantity('1')}]) == ''",
        "'%s'.format([device.attributes['d'].x]) == ''",
        "'%q'.format([1]) == ''",
    ],
)
def test_refused(text):
    with pytest.raises(CompileError):
        compile_selector(text, stored=True)
