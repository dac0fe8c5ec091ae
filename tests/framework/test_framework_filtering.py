from dataclasses import dataclass

import pytest

from modelplane.framework import PluginFault, Refusal, RefusalCode
from modelplane.framework.filtering import MemoizedFilter

NO = Refusal("even", RefusalCode.UNSCHEDULABLE, "odd")


@dataclass(frozen=True)
class Even:
    name: str = "even"

    def refuse(self, _state, candidate):
        return NO if candidate % 2 else None


def test_a_filter_judges_each_candidate():
    kept = MemoizedFilter(Even())
    answers = kept.answers(None, (1, 2, 3, 4))
    assert (answers, kept.admitted((1, 2, 3, 4), answers)) == ([NO, None, NO, None], (2, 4))


def test_the_candidates_themselves_are_given_when_none_is_refused():
    kept, candidates = MemoizedFilter(Even()), (2, 4)
    assert kept.admitted(candidates, kept.answers(None, candidates)) is candidates


def test_the_same_tuple_of_answers_for_the_same_candidates_gives_the_same_object():
    kept, candidates, answers = MemoizedFilter(Even()), (1, 2, 3), (NO, None, NO)
    first = kept.admitted(candidates, answers)
    assert (first, kept.admitted(candidates, answers) is first) == ((2,), True)


def test_other_candidates_or_other_answers_are_sorted_anew():
    kept, answers = MemoizedFilter(Even()), (NO, None, NO)
    given = [((1, 2, 3), answers), ((5, 6, 7), answers), ((5, 6, 7), (NO, None, None)), ((5, 6, 7), answers)]
    assert [kept.admitted(*each) for each in given] == [(2,), (6,), (6, 7), (6,)]


def test_a_list_may_have_changed_since_the_last_time():
    kept, candidates, answers = MemoizedFilter(Even()), (1, 2, 3), [NO, None, NO]
    before = kept.admitted(candidates, answers)
    answers[2] = None
    assert (before, kept.admitted(candidates, answers)) == ((2,), (2, 3))


def test_as_many_answers_as_candidates_are_needed():
    with pytest.raises(PluginFault, match="plugin even: gave 1 answers for 2 candidates"):
        MemoizedFilter(Even()).admitted((1, 2), (NO,))


def test_a_filter_that_raises_is_a_fault():
    with pytest.raises(PluginFault, match="plugin even: raised TypeError: not all arguments converted") as caught:
        MemoizedFilter(Even()).answers(None, ("a",))
    assert (caught.value.plugin, type(caught.value.__cause__)) == ("even", TypeError)
