"""Cases about the pool: what a picker makes of endpoints that come and go, and of pods that are not ready."""

from modelplane.conformance.epp.bench import OK, UNAVAILABLE, Bench
from modelplane.conformance.epp.controls import KitEndpoint, PodState
from modelplane.conformance.epp.registry import CaseLevel, CaseNeed, case
from modelplane.conformance.epp.sending import (
    IN_A_ROW,
    expect_only,
    expect_soon,
    expect_status,
    expect_used,
    send,
)


@case(CaseLevel.MUST, CaseNeed.POOL)
async def pool_changes_are_followed(bench: Bench) -> None:
    """Picks endpoints that were added to the pool, and none that was removed.

    Pools are scaled while they serve, and a removed address may belong to another server by then.
    """
    last = bench.pool[-1]
    async with bench.pool_of([KitEndpoint(last)]):
        await expect_only(bench, last, "the other endpoints were removed from the pool")
    for address in bench.pool:
        await expect_used(bench, address, "which was added to the pool")


@case(CaseLevel.MUST, CaseNeed.POOL)
async def pool_without_endpoints_is_rejected(bench: Bench) -> None:
    """Returns 503 while the pool has no endpoint.

    The protocol wants 503, by which gateways and clients know that another pool may serve.
    """
    async with bench.pool_of([]):
        await expect_status(bench, UNAVAILABLE, "the pool has no endpoint")
    await expect_status(bench, OK, "the pool has endpoints again")


@case(CaseLevel.MUST, CaseNeed.PODS)
async def unready_pods_are_not_picked(bench: Bench) -> None:
    """Does not pick endpoints of a pod that is not ready, and picks them once it is.

    A server is in the pool while it loads its model, and cannot serve.
    """
    await _avoids(bench, PodState.UNREADY)


@case(CaseLevel.SHOULD, CaseNeed.PODS)
async def terminating_pods_are_not_picked(bench: Bench) -> None:
    """Does not pick endpoints of a pod that is being deleted, though it is still ready.

    A pod stays ready while it drains: what is sent to it then is cut.
    """
    await _avoids(bench, PodState.TERMINATING)


async def _avoids(bench: Bench, state: PodState) -> None:
    avoided = bench.pods[0]
    members = [KitEndpoint(address, state if address in avoided else PodState.READY) for address in bench.pool]

    async def avoids() -> bool:
        return not {await send(bench) for _ in range(2 * IN_A_ROW)}.intersection(avoided)

    async with bench.pool_of(members):
        await expect_soon(bench, avoids, f"requests reached a pod that is {state.value}")
    for address in avoided:
        await expect_used(bench, address, "whose pod is ready again")


@case(CaseLevel.MUST, CaseNeed.PODS)
async def unready_pool_is_rejected(bench: Bench) -> None:
    """Returns 503 while no pod of the pool is ready.

    The protocol wants 503 where no endpoint is ready.
    """
    async with bench.pool_of(KitEndpoint(address, PodState.UNREADY) for address in bench.pool):
        await expect_status(bench, UNAVAILABLE, "no pod of the pool is ready")
    await expect_status(bench, OK, "the pods of the pool are ready again")


@case(CaseLevel.MUST, CaseNeed.PORTS)
async def ports_of_a_pod_are_endpoints(bench: Bench) -> None:
    """Picks each port of a pod.

    Ranks of a data-parallel server are ports of one pod, each with its own queue and cache.
    """
    for address in next(pod for pod in bench.pods if len(pod) > 1):
        await expect_used(bench, address, "a port of a pod with several")
