"""The name by which a replica's engines know their model, as far as its spec says it.

Clients name a service, and an engine answers 404 for a name that is not its own. A gateway that has this name can put
it in the place of the service's. Nothing is guessed: an engine with a command of its own says it only by a flag.
"""

from collections.abc import Iterator, Mapping, Sequence

from modelplane.api.labels import DEPLOYMENT
from modelplane.api.objects import Manifest, items_at, labels_of, namespace_of, text_at, value_at
from modelplane.compose.engines.launch import SERVED_MODEL_NAME, flag_value, has_flag
from modelplane.compose.engines.sglang import MODEL_FLAGS
from modelplane.compose.engines.vllm import given_model

_FLAG = "--served-model-name"
_LONGEST = 253


def served_name(replica: Manifest) -> str | None:
    """Of a ModelReplica; None where its engines do not say it, or not the same."""
    deployment = labels_of(replica).get(DEPLOYMENT, "")
    fleet_name = f"{namespace_of(replica)}/{deployment}"
    names = {_name(engine, deployment) for engine in items_at(replica, "spec", "engines")}
    found = next(iter(names)) if len(names) == 1 else None
    expanded = found.replace(f"$({SERVED_MODEL_NAME})", fleet_name) if found else ""
    is_sure = expanded and "$(" not in expanded and expanded.isprintable() and expanded.isascii()
    return expanded if is_sure and len(expanded) <= _LONGEST else None


def _name(engine: Manifest, deployment: str) -> str | None:
    container = next(_containers(engine), {})
    args, command = _words(container, "args"), _words(container, "command")
    flagged = flag_value([*command, *args], _FLAG)
    if flagged or command:
        return flagged
    if has_flag(args, "--config"):
        return None
    kind = text_at(engine, "type")
    if kind == "SGLang":
        return next((given for flag in MODEL_FLAGS if (given := flag_value(args, flag))), deployment)
    return given_model(tuple(args))[0] or deployment if kind == "vLLM" else None


def _containers(engine: Manifest) -> Iterator[Manifest]:
    """Those of the member that answers requests, the engine's own first."""
    members = [each for each in items_at(engine, "members") if text_at(each, "role") != "Worker"]
    found = [each for member in members for each in items_at(member, "template", "spec", "containers")]
    return iter(sorted(found, key=lambda each: text_at(each, "name") != "engine"))


def _words(container: Mapping[str, object], field: str) -> Sequence[str]:
    found = value_at(container, field)
    return [str(each) for each in found] if isinstance(found, list | tuple) else []
