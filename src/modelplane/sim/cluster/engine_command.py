"""Which engine a container runs, and with which arguments: read from its command, its args and its image.

    vllm serve …, python3 -m vllm.entrypoints.openai.api_server …     vLLM
    an image named after vLLM without a command                       vLLM, as its images begin with `vllm serve`
    python3 -c PROGRAM …, where the program starts vLLM               vLLM
    python3 -m sglang.launch_server …, sglang serve …                 SGLang

A shell's script is read up to its first operator. Any other program is not known, and takes any argument.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from modelplane.api.objects import items_at, text_at

EngineProgram = Literal["vllm", "sglang"]
_MODULES: Mapping[str, EngineProgram] = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "sglang.launch_server": "sglang",
}
_PROGRAMS: Mapping[str, EngineProgram] = {"vllm": "vllm", "sglang": "sglang"}
_OPERATORS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "2>&1", "&>"})
_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """An engine's program and the words after it."""

    program: EngineProgram
    arguments: tuple[str, ...]


def engine_command(container: Mapping[str, object]) -> EngineCommand | None:
    """None where the container runs a program that is not known."""
    command, args = (_words(container, field) for field in ("command", "args"))
    if not command and "vllm" in repository_name(text_at(container, "image")):
        return EngineCommand("vllm", tuple(args[1:] if args[:1] == ["serve"] else args))
    return _command(_script(command, args))


def repository_name(image: str) -> str:
    """The last part of an image's repository: `vllm-openai` of `docker.io/vllm/vllm-openai:v1`."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def variables(container: Mapping[str, object]) -> dict[str, str]:
    """The variables with a value of their own."""
    return {str(entry.get("name")): str(entry.get("value", "")) for entry in items_at(container, "env")}


def _words(container: Mapping[str, object], field: str) -> list[str]:
    found = container.get(field)
    return [str(word) for word in found] if isinstance(found, list | tuple) else []


def _script(command: Sequence[str], args: Sequence[str]) -> list[str]:
    """All words, with those of a shell's script in its place."""
    words = [*command, *args]
    if words and words[0].rpartition("/")[2] in _SHELLS:
        flag = next((number for number, word in enumerate(words) if _gives_script(word)), None)
        if flag is not None and flag + 1 < len(words):
            return _split(words[flag + 1])
    return words


def _gives_script(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and word.endswith("c")


def _split(script: str) -> list[str]:
    try:
        words = shlex.split(script.replace("\\\n", " ").replace("\n", " ; "), comments=True)
    except ValueError:
        return []
    starts = [number for number, word in enumerate(words) if word in _PROGRAMS or word in _MODULES]
    return list(takewhile(lambda word: word not in _OPERATORS, words[starts[0] :])) if starts else []


def _command(words: Sequence[str]) -> EngineCommand | None:
    for number, word in enumerate(words):
        before = words[number - 1] if number else ""
        if word in _MODULES:
            return EngineCommand(_MODULES[word], tuple(words[number + 1 :]))
        program = _PROGRAMS.get(before.rpartition("/")[2])
        if word == "serve" and program is not None:
            return EngineCommand(program, tuple(words[number + 1 :]))
        if before == "-c" and '"vllm", "serve"' in word:
            return EngineCommand("vllm", tuple(words[number + 1 :]))
    return None
