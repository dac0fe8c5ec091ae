"""What engines share that run on one node."""

from modelplane.api.reasons import Reason
from modelplane.compose.context import RenderError
from modelplane.compose.engines.launch import LaunchRequest

ANY_ADDRESS = "0.0.0.0"  # noqa: S104  the pod's own network, behind its policy


def check_one_node(request: LaunchRequest, name: str, *, splits: bool = True) -> None:
    """Refuses what the engine cannot be told: several nodes, ranks, phases, adapters; sizes where it has no flag."""
    topology = request.topology
    wrong = [
        ("several nodes", request.nodes > 1),
        ("data-parallel ranks", topology.data > 1),
        ("prefill and decode apart", request.phase is not None),
        ("adapters from caches", bool(request.adapters)),
        ("a tensor size: it uses the devices that it sees", topology.tensor > 1 and not splits),
    ]
    found = next((what for what, holds in wrong if holds), None)
    if found is not None:
        raise RenderError(Reason.NOT_SUPPORTED, f"engine {request.engine}: {name} is not run with {found}")


def missing_model(request: LaunchRequest, hint: str) -> RenderError:
    return RenderError(Reason.INVALID, f"engine {request.engine}: no model: {hint}")


def own_model(args: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """The model where it is the first argument, and the others."""
    if args and not args[0].startswith("-"):
        return args[0], args[1:]
    return None, args
