"""PodDisruptionBudgets: at most one pod of an engine is evicted at a time.

An eviction is voluntary: somebody drains a node, or an autoscaler removes it. Copies of an engine then leave one after
the other, each when the one before it is back. The pods of a group live and die together, so the first eviction takes
one group, and the next waits until it is back. An engine of one pod has no budget: a budget that forbids its eviction
would block the drain of its node for ever, and one that allows it says nothing. Drain the pool before the node there.
A pod that is not ready may always be evicted: it serves nobody, and must not block a node.
"""

from modelplane.api.labels import ENGINE, REPLICA
from modelplane.api.models import ReplicaEngine
from modelplane.compose.context import Context, group_size
from modelplane.compose.contract import Remote
from modelplane.compose.workload_metadata import engine_label


def disruption_budgets(context: Context) -> dict[str, Remote]:
    return {
        f"disruption-{engine.name}": context.remote(_budget(context, engine))
        for engine in context.replica.spec.engines
        if engine.copies * group_size(engine) > 1
    }


def _budget(context: Context, engine: ReplicaEngine) -> dict[str, object]:
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": {REPLICA: context.name, ENGINE: engine.name}},
    }
    name = context.workload_name(engine)
    return context.object("policy/v1", "PodDisruptionBudget", name, engine_label(engine), spec=spec)
