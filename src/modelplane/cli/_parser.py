"""The parser of every command: a word that it does not know comes with the nearest that it knows."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn


class CommandParser(argparse.ArgumentParser):
    """Parsers of verbs are of this class, too."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        choices = [str(choice) for choice in action.choices or ()]
        guess = nearest_word(str(value), choices) if choices and value not in (action.choices or ()) else ""
        if guess:
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; did you mean {guess!r}?")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """An option that nobody knows is the first of the arguments that are left over."""
        head, marked, rest = message.partition("unrecognized arguments: ")
        option = next((word.partition("=")[0] for word in rest.split() if word.startswith("-")), "")
        guess = nearest_word(option, options_of(self)) if marked and option else ""
        shown = f"{head}{marked}{rest}; did you mean {guess}?" if guess else message
        super().error(f"{shown}\n`{self.prog} --help` explains it")


def nearest_word(word: str, known: Sequence[str]) -> str:
    """Of those that are near, one with the same first letter: few people mistype that one."""
    from difflib import get_close_matches

    near = get_close_matches(word, known)
    return min(near, key=lambda each: each[:1] != word[:1], default="")


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    """Of the parser and of all its verbs."""
    return sorted(set(_options(parser)))


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:  # noqa: SLF001  there is no other way to list them
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  as above
            verbs: Iterable[argparse.ArgumentParser] = action.choices.values()
            for verb in verbs:
                yield from _options(verb)
