"""Where engines listen.

Prefill and decode share one pool, and a pool has one port. Prefill engines listen there; before each decode engine a
routing sidecar does, and the engine moves to a port of its own.
"""

from modelplane.api.labels import DECODE_PORT, ENGINE_CONTAINER, ENGINE_PORT
from modelplane.api.models import Container, ReplicaEngine, ReplicaMember
from modelplane.api.reasons import Reason
from modelplane.compose.context import Context, RenderError, head_member
from modelplane.compose.engines import ENGINES
from modelplane.compose.engines.launch import flag_value

_MAX_PORT = 65535


def engine_container(member: ReplicaMember) -> Container:
    for container in member.template.spec.containers:
        if container.name == ENGINE_CONTAINER:
            return container
    raise RenderError(Reason.INVALID, f"no container is named {ENGINE_CONTAINER}")


def is_routed(context: Context, engine: ReplicaEngine) -> bool:
    """Whether a routing sidecar stands before the engine."""
    return context.disaggregated and engine.phase == "Decode"


def engine_port(context: Context, engine: ReplicaEngine) -> int:
    """The port that the engine's own server listens on."""
    container = engine_container(head_member(engine))
    chosen = _given_port(engine, container)
    if not is_routed(context, engine):
        return chosen or ENGINE_PORT
    taken = serving_port(context)
    if chosen is None or chosen == taken:
        if container.command and chosen == taken:
            message = f"engine {engine.name}: port {taken} is the routing sidecar's; have its command listen elsewhere"
            raise RenderError(Reason.INVALID, message)
        return DECODE_PORT
    return chosen


def serving_port(context: Context) -> int:
    """The port that requests come in on: one for the whole replica."""
    found = {
        _given_port(engine, engine_container(head_member(engine))) or ENGINE_PORT
        for engine in context.replica.spec.engines
        if not is_routed(context, engine)
    }
    if len(found) > 1:
        listed = ", ".join(str(port) for port in sorted(found))
        raise RenderError(Reason.INVALID, f"the engines of one replica must listen on one port, not on {listed}")
    return next(iter(found), ENGINE_PORT)


def _given_port(engine: ReplicaEngine, container: Container) -> int | None:
    flags, words = ENGINES[engine.type_].port_flags, (*container.command, *container.args)
    text = next((found for flag in flags if (found := flag_value(words, flag)) is not None), None)
    if text is None and engine.server is not None and engine.server.port is not None:
        return engine.server.port
    if text is None:
        return container.ports[0].container_port if container.ports else None
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MAX_PORT):
        raise RenderError(Reason.INVALID, f"engine {engine.name}: {flags[0]} {text!r} is no port")
    return int(text)
