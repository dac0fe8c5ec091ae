"""Addresses of pods, and what is shown of a pod that runs."""

from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.pod_runs import Addresses, PodRun
from modelplane.sim.cluster.pod_status import Exit, PodStage, PodView

REF = ObjectRef("", "Pod", "team", "p")


def test_a_block_gives_its_lowest_free_address_after_the_nodes_own():
    addresses = Addresses()
    first, second = (addresses.assign("10.128.0.0/24", REF) for _ in range(2))
    addresses.release(first)
    assert (first, second, addresses.assign("10.128.0.0/24", REF)) == ("10.128.0.2", "10.128.0.3", "10.128.0.2")


def test_a_run_is_seen_without_what_only_the_kubelet_uses():
    ended = Exit(137, "Error", "", 3.0)
    run = PodRun(REF, "u", "10.0.0.1", PodStage.BACKOFF, 9.0, admitted_s=1.0, restarts=2, failures=1, last_exit=ended)
    assert run.view() == PodView(
        stage=PodStage.BACKOFF, ip="10.0.0.1", admitted_s=1.0, running_since_s=0.0, restarts=2, last_exit=ended
    )
