"""`modelplane completion`: shells complete commands, options, kinds and the names of objects."""

import argparse
from collections.abc import Iterable, Sequence
from contextlib import suppress

from modelplane.api.errors import ModelplaneError

_EPILOG = """\
examples:
  source <(modelplane completion bash)              for this shell; in ~/.bashrc for every one
  modelplane completion zsh > "${fpath[1]}/_modelplane"
  modelplane completion fish > ~/.config/fish/completions/modelplane.fish

Names of objects come from the plane that the command would talk to.
"""
_SCRIPTS = {
    "bash": """\
_modelplane() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen -W "$(modelplane completion words -- "${COMP_WORDS[@]:1:$COMP_CWORD}" 2>/dev/null)" \\
    -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _modelplane modelplane
""",
    "zsh": """\
#compdef modelplane
_modelplane() {
  local -a found
  found=(${(f)"$(modelplane completion words -- "${words[@]:1:$((CURRENT - 1))}" 2>/dev/null)"})
  (( $#found )) && compadd -- "${found[@]}" || _files
}
if [[ "$funcstack[1]" == _modelplane ]]; then _modelplane "$@"; else compdef _modelplane modelplane; fi
""",
    "fish": """\
complete -c modelplane -a '(modelplane completion words -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}
_BY_KIND = frozenset({"get", "describe", "delete", "wait", "scale", "trace", "logs"})


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Prints what a shell needs to complete commands."
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=(*_SCRIPTS, "words"), help="the shell; words: what may come next, for scripts")
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    if arguments.shell in _SCRIPTS:
        print(_SCRIPTS[arguments.shell], end="")
        return 0
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    begun = words[-1] if words else ""
    print("".join(f"{word}\n" for word in candidates(words[:-1]) if word.startswith(begun)), end="")
    return 0


def candidates(before: Sequence[str]) -> list[str]:
    """Every word that may come after these."""
    from modelplane.cli._main import COMMANDS, parser_of

    plain = [word for word in before if not word.startswith("-")]
    command = next((each for each in COMMANDS if plain and each.name == plain[0]), None)
    if command is None:
        return [] if plain else [each.name for each in COMMANDS]
    parser, rest = _verb(parser_of(command), plain[1:])
    options = sorted(option for action in parser._actions for option in action.option_strings)  # noqa: SLF001  there is no other way to list them
    if command.name in _BY_KIND:
        return [*_kinds_or_names(command.name, rest, before), *options]
    return [*_choices(parser, len(rest)), *options]


def _verb(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[argparse.ArgumentParser, Sequence[str]]:
    """The parser of the last verb that the words name, and the words after it."""
    verbs = _verbs(parser)
    if verbs is None or not words or words[0] not in verbs.choices:
        return parser, words
    return _verb(verbs.choices[words[0]], words[1:])


def _verbs(parser: argparse.ArgumentParser) -> "argparse._SubParsersAction[argparse.ArgumentParser] | None":
    found = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001  as above
    return next(found, None)


def _choices(parser: argparse.ArgumentParser, position: int) -> Iterable[str]:
    verbs = _verbs(parser)
    if verbs is not None:
        return verbs.choices if position == 0 else ()
    positional = [action for action in parser._actions if not action.option_strings]  # noqa: SLF001  as above
    chosen = positional[position].choices if position < len(positional) else None
    return [str(choice) for choice in chosen] if chosen else ()


def _kinds_or_names(command: str, rest: Sequence[str], before: Sequence[str]) -> list[str]:
    from modelplane.cli import logs
    from modelplane.cli._kinds import kind_words, kinds_of_word
    from modelplane.views.object_tree import TREE_KINDS

    if not rest:
        return kind_words({"trace": TREE_KINDS, "logs": logs.KINDS}.get(command, {}))
    with suppress(ModelplaneError, OSError):
        kinds = kinds_of_word(rest[0])
        return _names(kinds[0], before) if len(kinds) == 1 else []
    return []


def _names(kind: str, before: Sequence[str]) -> list[str]:
    """Of the objects of the plane and namespace that the words before name."""
    from modelplane.api.objects import name_of
    from modelplane.cli._formats import add_plane, plane_of
    from modelplane.cli._objects import PlaneObjects, add_namespace

    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    add_plane(parser)
    add_namespace(parser)
    arguments, _ = parser.parse_known_args(list(before))
    objects = PlaneObjects(plane_of(arguments))
    return [name_of(item) for item in objects.list(objects.resource(kind), arguments.namespace)]
