"""Filters that cache their last result."""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Generic, TypeVar

from modelplane.framework.faults import PluginFault, raised
from modelplane.framework.plugins import Answers, Filter, is_set_filter

S = TypeVar("S")
C = TypeVar("C")


class MemoizedFilter(Generic[S, C]):
    """One filter, and the candidates that it admitted last."""

    __slots__ = ("_admitted", "_answers", "_candidates", "_narrow", "name", "refuse")

    def __init__(self, plugin: Filter[S, C]) -> None:
        self.name = plugin.name
        self.refuse = plugin.refuse
        self._narrow: Callable[[S, Sequence[C]], Answers] | None = None
        if is_set_filter(plugin):
            self._narrow = plugin.narrow
        self._candidates: Sequence[C] = ()
        self._answers: Answers = ()
        self._admitted: Sequence[C] = ()

    def answers(self, state: S, candidates: Sequence[C]) -> Answers:
        try:
            if self._narrow is not None:
                return self._narrow(state, candidates)
            refuse = self.refuse
            return [refuse(state, candidate) for candidate in candidates]
        except Exception as error:
            raise raised(self.name, error) from error

    def admitted(self, candidates: Sequence[C], answers: Answers) -> Sequence[C]:
        """The candidates without a refusal; the same object if none is refused."""
        if answers is self._answers and candidates is self._candidates and type(answers) is tuple:
            return self._admitted
        if len(answers) != len(candidates):
            raise PluginFault(self.name, f"gave {len(answers)} answers for {len(candidates)} candidates")
        admits_all = answers.count(None) == len(candidates)
        admitted = candidates if admits_all else tuple(compress(candidates, [answer is None for answer in answers]))
        self._candidates, self._answers, self._admitted = candidates, answers, admitted
        return admitted
