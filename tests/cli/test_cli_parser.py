"""A word that a command does not know comes with the nearest that it knows, for every enumerated argument."""

import argparse

import pytest

from modelplane.cli import main
from modelplane.cli._main import COMMANDS, parser_of
from modelplane.cli._parser import CommandParser, nearest_word, options_of


def enumerated(parser, words=()):
    """Each argument that has a list of values, with the words before it and the parser that has it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield parser, action
            for name, verb in action.choices.items():
                yield from enumerated(verb, (*words, name))
        elif action.choices and len(list(action.choices)) > 1:
            yield parser, action


ALL = [
    pytest.param(parser, action, id=f"{parser.prog} {'/'.join(action.option_strings) or action.dest}")
    for command in COMMANDS
    for parser, action in enumerated(parser_of(command))
]


def test_there_are_many():
    assert len(ALL) > 40


@pytest.mark.parametrize(("parser", "action"), ALL)
def test_a_misspelled_value_is_guessed(parser, action):
    assert isinstance(parser, CommandParser)
    for choice in map(str, action.choices):
        if len(choice) > 3:
            wrong = choice[:-2] + choice[-1] + choice[-2]
            if wrong not in action.choices:
                with pytest.raises(argparse.ArgumentError, match=r"invalid choice: .*; did you mean '"):
                    parser._check_value(action, wrong)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("statsu", "argument COMMAND: invalid choice: 'statsu'; did you mean 'status'?"),
        ("rollout stauts md/x", "invalid choice: 'stauts'; did you mean 'status'?"),
        ("get md -o jsno", "argument -o/--output: invalid choice: 'jsno'; did you mean 'json'?"),
        ("get md --kubecnfig x", "unrecognized arguments: --kubecnfig x; did you mean --kubeconfig?"),
        ("rollout undo md/x --to-revison=2", "unrecognized arguments: --to-revison=2; did you mean --to-revision?"),
        ("get md -o zebra", "invalid choice: 'zebra' (choose from 'text', 'wide', 'json', 'yaml', 'name')"),
        ("version zebra", "unrecognized arguments: zebra\n`modelplane version --help` explains it\n"),
        ("trace", "arguments are required: KIND/NAME\n`modelplane trace --help` explains it\n"),
        ("rollout", "arguments are required: VERB\n`modelplane rollout --help` explains it\n"),
    ],
)
def test_what_a_person_sees(words, says, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert (ended.value.code, says in capsys.readouterr().err) == (2, True)


def test_options_are_those_of_all_verbs():
    parser = CommandParser()
    parser.add_argument("--one")
    parser.add_subparsers().add_parser("verb").add_argument("-t", "--two")
    assert options_of(parser) == ["--help", "--one", "--two", "-h", "-t"]
    assert (nearest_word("--on", options_of(parser)), nearest_word("--zebra", options_of(parser))) == ("--one", "")
