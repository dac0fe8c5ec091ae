"""The tools that an assistant may call: commands that only read, with JSON for output.

A tool is a command line of this program and nothing else, so an assistant sees what a person sees and may do no more.
Arguments become single words of that line: names are matched in full, and texts are files or `--option=value`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from modelplane.api.errors import InputError
from modelplane.views.object_tree import TREE_KINDS

Arguments = Mapping[str, object]
_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_NAMESPACE: Final = {"type": "string", "pattern": f"^{_NAME}$", "description": "the namespace of a team"}
_MANIFESTS: Final = {"type": "string", "description": "Kubernetes manifests as YAML, several with --- between them"}
_MOST_STEPS: Final = 50
_MOST_SECONDS: Final = 7200
MANIFESTS_FILE: Final = "manifests.yaml"


class McpTool(NamedTuple):
    name: str
    description: str
    properties: Mapping[str, Mapping[str, object]]
    required: tuple[str, ...]
    words: Callable[[Arguments], list[str]]
    """The command and its words, without those that say where the fleet is."""
    reads_plane: bool = True

    def shown(self) -> dict[str, object]:
        """As the protocol lists it."""
        schema = {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
            "additionalProperties": False,
        }
        hints = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
        return {"name": self.name, "description": self.description, "inputSchema": schema, "annotations": hints}


def command_line(tool: McpTool, arguments: Arguments, where: Sequence[str], folder: Path) -> list[str]:
    """The words to run. Manifests are written into the folder, which belongs to this call."""
    _check(tool, arguments)
    words = tool.words(arguments)
    manifests = arguments.get("manifests")
    if isinstance(manifests, str):
        file = folder / MANIFESTS_FILE
        file.write_text(manifests)
        words += ["-f", str(file)]
    return [*words, "-o", "json", *(where if tool.reads_plane else ())]


def _check(tool: McpTool, arguments: Arguments) -> None:
    unknown = sorted(set(arguments) - set(tool.properties))
    if unknown:
        raise InputError(f"{tool.name} has no argument {unknown[0]!r}; it has {', '.join(tool.properties)}")
    missing = [name for name in tool.required if name not in arguments]
    if missing:
        raise InputError(f"{tool.name} needs the argument {missing[0]!r}")
    for name, value in arguments.items():
        problem = _problem(tool.properties[name], value)
        if problem:
            raise InputError(f"the argument {name!r} {problem}")


def _problem(schema: Mapping[str, object], value: object) -> str:
    """What is wrong with a value; empty: nothing. Only the words of JSON Schema that tools use are known."""
    kinds: Mapping[object, type | tuple[type, ...]] = {
        "string": str,
        "boolean": bool,
        "number": (int, float),
        "array": list,
    }
    kind = schema["type"]
    if not isinstance(value, kinds[kind]) or (kind == "number" and isinstance(value, bool)):
        return f"is not a {kind}"
    if isinstance(value, str):
        return _text_problem(schema, value)
    if isinstance(value, list):
        items = schema["items"]
        assert isinstance(items, Mapping)  # noqa: S101  of our own table
        if len(value) > _MOST_STEPS:
            return f"has more than {_MOST_STEPS} entries"
        return next(filter(None, (_problem(items, item) for item in value)), "")
    if isinstance(value, int | float) and kind == "number" and not 0 < value <= _MOST_SECONDS:
        return f"is not between 0 and {_MOST_SECONDS}"
    return ""


def _text_problem(schema: Mapping[str, object], value: str) -> str:
    choices, pattern = schema.get("enum"), schema.get("pattern")
    if isinstance(choices, list) and value not in choices:
        return f"is none of {', '.join(choices)}"
    if isinstance(pattern, str) and not re.fullmatch(pattern.strip("^$"), value, re.ASCII):
        return f"is {value[:60]!r}, which is no such name"
    return ""


def _text(arguments: Arguments, name: str) -> str:
    found = arguments.get(name, "")
    return found if isinstance(found, str) else ""


def _in_namespace(command: str) -> Callable[[Arguments], list[str]]:
    return lambda arguments: [command, *_namespace(arguments)]


def _namespace(arguments: Arguments) -> list[str]:
    found = _text(arguments, "namespace")
    return [f"--namespace={found}"] if found else []


def _trace(arguments: Arguments) -> list[str]:
    return ["trace", f"{_text(arguments, 'kind')}/{_text(arguments, 'name')}", *_namespace(arguments)]


def _explain(arguments: Arguments) -> list[str]:
    return ["explain", f"deployment/{_text(arguments, 'deployment')}", *_namespace(arguments)]


def _explain_cluster(arguments: Arguments) -> list[str]:
    return ["explain", f"cluster/{_text(arguments, 'cluster')}"]


def _events(arguments: Arguments) -> list[str]:
    type_ = _text(arguments, "type")
    where = _namespace(arguments) or ["--all-namespaces"]
    return ["events", *where, *([f"--types={type_}"] if type_ else [])]


def _plan(arguments: Arguments) -> list[str]:
    return ["plan", *(["--without-scale-up"] if arguments.get("without_scale_up") else [])]


def _simulate(arguments: Arguments) -> list[str]:
    steps, seconds = arguments.get("steps", []), arguments.get("seconds")
    assert isinstance(steps, list)  # noqa: S101  it was checked
    return ["simulate", *(f"--step={step}" for step in steps), *([f"--seconds={seconds}"] if seconds else [])]


_KINDS: Final = sorted(kind.lower() for kind in TREE_KINDS)
TOOLS: Final = (
    McpTool(
        "fleet_status",
        "Whether clusters, deployments, replicas, caches and services are ready, and why not. Start here.",
        {"namespace": _NAMESPACE},
        (),
        _in_namespace("status"),
    ),
    McpTool(
        "top",
        "GPUs used, free and lost by class, pool and deployment, requests per second where they are measured, and "
        "prices by the hour.",
        {"namespace": _NAMESPACE},
        (),
        _in_namespace("top"),
    ),
    McpTool(
        "cost",
        "What teams and deployments cost by the hour, what of the nodes nobody takes, and what a million tokens cost "
        "where tokens were counted.",
        {"namespace": _NAMESPACE},
        (),
        _in_namespace("cost"),
    ),
    McpTool(
        "trace",
        "What an object leads to, as a tree from deployment over replicas, clusters and endpoints to services, each "
        "with its state, since when, and why.",
        {
            "kind": {"type": "string", "enum": _KINDS, "description": "the kind of the object"},
            "name": {"type": "string", "pattern": f"^{_NAME}$", "description": "the name of the object"},
            "namespace": {**_NAMESPACE, "description": "its namespace (default)"},
        },
        ("kind", "name"),
        _trace,
    ),
    McpTool(
        "explain",
        "Why the replicas of a deployment are where they are, or are nowhere: every cluster and pool with its scores, "
        "or with the filter that refuses it and the numbers.",
        {
            "deployment": {"type": "string", "pattern": f"^{_NAME}$", "description": "the name of the ModelDeployment"},
            "namespace": {**_NAMESPACE, "description": "its namespace, where several have a deployment of this name"},
        },
        ("deployment",),
        _explain,
    ),
    McpTool(
        "explain_cluster",
        "Which software a cluster has, how far an upgrade of the fleet is, which cluster waits for which wave and why, "
        "and which scheduler binds its pods.",
        {"cluster": {"type": "string", "pattern": f"^{_NAME}$", "description": "the name of the InferenceCluster"}},
        ("cluster",),
        _explain_cluster,
    ),
    McpTool(
        "events",
        "What happened in the last hour, the newest last: transitions of objects with their reasons.",
        {
            "namespace": {**_NAMESPACE, "description": "the namespace of a team (all)"},
            "type": {"type": "string", "enum": ["Normal", "Warning"], "description": "events of one type"},
        },
        (),
        _events,
    ),
    McpTool(
        "plan",
        "What applying manifests to this fleet would place, keep, move, delete or leave pending, and its price by the "
        "hour. Nothing is applied.",
        {
            "manifests": _MANIFESTS,
            "without_scale_up": {"type": "boolean", "description": "replicas that need new nodes do not fit"},
        },
        ("manifests",),
        _plan,
    ),
    McpTool(
        "simulate",
        "Runs a fleet of manifests in virtual time with the real placement and tells what happens to its replicas. "
        "The fleet is that of the manifests alone: clusters, classes and deployments. Steps are such as '60 lose "
        "cluster east', '90 double team/chat', '120 drain cluster west', '60 add pool east/more h200-8x 2', '5m lose "
        "region us-east', '9m roll team/chat vllm/vllm-openai:v0.28.0'.",
        {
            "manifests": _MANIFESTS,
            "steps": {
                "type": "array",
                "items": {"type": "string", "pattern": r"^[0-9][ -~]{0,200}$"},
                "description": "what happens, each after the second it happens at",
            },
            "seconds": {"type": "number", "description": "how long it runs, in virtual time"},
        },
        ("manifests",),
        _simulate,
        reads_plane=False,
    ),
)


def structured(output: str) -> object | None:
    """The output as a JSON object; None where it is none."""
    try:
        found = msgspec.json.decode(output)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None
