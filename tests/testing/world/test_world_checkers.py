"""Every checker finds the defect that it is there for: the product is broken on purpose, and a known world shows it.

Each row is one defect: how it is put back, the worlds it shows in, and the checker that says so. The same worlds are
free of violations as the product is. The first rows are defects that the product has had.
"""

import itertools
from dataclasses import replace

import msgspec
import pytest

from modelplane.api.labels import STAGED
from modelplane.api.objects import annotations_of
from modelplane.compose import model_cache, model_deployment
from modelplane.compose.caching import staging
from modelplane.compose.caching.targets import Targets
from modelplane.compose.context import Context
from modelplane.crossplane import provider_objects, tenants
from modelplane.testing.world.run import run_world

but = msgspec.structs.replace


def forgets_observed(monkeypatch):
    """A replica that is missing from the list was forgotten, and made anew elsewhere."""
    monkeypatch.setattr(model_deployment, "with_observed", lambda fleet, *_: fleet)


def lets_namespaces_go(monkeypatch):
    """A tenant's namespace was deleted when no replica of the tenant was listed."""

    def listed(cluster, replicas, seen):
        found = sorted({item["metadata"]["namespace"] for item in replicas or ()})
        return {f"tenant-{tenant}": tenants._held(cluster, tenant, seen.get(f"tenant-{tenant}")) for tenant in found}

    monkeypatch.setattr(tenants, "tenant_namespaces", listed)


def trusts_lost_credentials(monkeypatch):
    """What was observed last counted as ready when the provider could not connect."""
    monkeypatch.setattr(provider_objects, "_UNREAD", ("observe failed",))


def sees_no_others(monkeypatch):
    """Placement counts only the deployment's own replicas."""
    whole = model_deployment.with_observed

    def own(fleet, deployment, observed, decode):
        foreign = [replica.id for replica in fleet.replicas if replica.deployment != deployment]
        return whole(fleet.with_replicas([], foreign), deployment, observed, decode)

    monkeypatch.setattr(model_deployment, "with_observed", own)


def goes_by_names(monkeypatch):
    """The namespace of both teams is one on workload clusters."""
    monkeypatch.setattr(Context, "namespace", "mp-shared")


def one_too_many(monkeypatch):
    whole = model_deployment.placement_request
    monkeypatch.setattr(
        model_deployment, "placement_request", lambda *given: but(whole(*given), replicas=whole(*given).replicas + 1)
    )


def forgets_what_serves(monkeypatch):
    """A replica that serves is dropped, and the next pass places another."""
    whole = model_deployment.schedule

    def decide(*given, **named):
        found = whole(*given, **named)
        return but(found, placements=tuple(each for each in found.placements if not each.replica.serving))

    monkeypatch.setattr(model_deployment, "schedule", decide)


def says_ready(monkeypatch):
    whole = model_deployment.ready_condition

    def ready(request, decided, _, *rest):
        return whole(request, decided, request.resource.spec.replicas, *rest)

    monkeypatch.setattr(model_deployment, "ready_condition", ready)


def places_nothing(monkeypatch):
    whole = model_deployment.schedule

    def decide(request, *given, **named):
        found = whole(request, *given, **named)
        return but(found, placements=(), pending=request.replicas, unplaced=request.replicas)

    monkeypatch.setattr(model_deployment, "schedule", decide)


def counts_its_calls(monkeypatch):
    whole, numbers = model_deployment.deployment_status, itertools.count()

    def status(*given):
        found = whole(*given)
        return but(found, placement=but(found.placement, summary=f"call {next(numbers)}"))

    monkeypatch.setattr(model_deployment, "deployment_status", status)


def asks_to_be_called(monkeypatch):
    monkeypatch.setattr(model_deployment, "_requeue_after_s", lambda *_: 1.0)


def endpoint_of_another(monkeypatch):
    whole = model_deployment.replica_endpoint

    def endpoint(*given):
        made = whole(*given)
        return made and {**made, "spec": {**made["spec"], "url": "http://elsewhere.example.com"}}

    monkeypatch.setattr(model_deployment, "replica_endpoint", endpoint)


def believes_desired(monkeypatch):
    """What is desired on a cluster counts as ready, observed or not."""
    whole = provider_objects._read_object

    def read(item):
        found = whole(item)
        return replace(found, ready=True)

    monkeypatch.setattr(provider_objects, "_read_object", read)


def fails_on_a_taint(monkeypatch):
    whole = model_deployment.schedule

    def decide(request, fleet, *given, **named):
        if any(cluster.taints for cluster in fleet.clusters):
            raise KeyError("taints")
        return whole(request, fleet, *given, **named)

    monkeypatch.setattr(model_deployment, "schedule", decide)


def calls_every_job_complete(monkeypatch):
    monkeypatch.setattr(staging, "_filled", lambda *_: True)


def trusts_old_marks(monkeypatch):
    """A claim that was made anew had the annotations of the one before, and counted as full."""
    monkeypatch.setattr(staging, "staged_digest", lambda volume: annotations_of(volume).get(STAGED))


def lets_claims_go(monkeypatch):
    """A cluster gives up a cache as soon as replicas mount it."""
    whole = model_cache.targets

    def decide(inputs, present):
        mounted = {entry.name for entry in inputs.cache.status.clusters if entry.references and entry.phase == "Ready"}
        return Targets(tuple(name for name in whole(inputs, present).wanted if name not in mounted), ())

    monkeypatch.setattr(model_cache, "targets", decide)


def places_where_caches_failed(monkeypatch):
    whole = model_deployment.placement_request
    monkeypatch.setattr(model_deployment, "placement_request", lambda *given: but(whole(*given), caches=()))


FAILING = ("volume-lost", "scale", "recreate")
WEIGHTS = [
    pytest.param(calls_every_job_complete, ("scale",), id="an engine on an empty directory"),
    pytest.param(trusts_old_marks, ("volume-deleted",), id="a phase that lies"),
    pytest.param(lets_claims_go, ("scale",), id="a claim goes while it is mounted"),
    pytest.param(places_where_caches_failed, FAILING, id="a GPU held by a failed cache"),
]
WITH_CACHES = range(1, 60, 7)


@pytest.mark.slow
@pytest.mark.parametrize(("broken", "faults"), WEIGHTS)
def test_a_defect_of_caches_is_found_and_its_world_is_fine_without(monkeypatch, broken, faults):
    is_found(monkeypatch, broken, faults, "weights", WITH_CACHES)


DEFECTS = [
    pytest.param(forgets_observed, ("list-shortened",), "lost", id="a short list loses what serves"),
    pytest.param(lets_namespaces_go, ("recreate",), "tenants", id="a tenant's namespace goes while it is used"),
    pytest.param(trusts_lost_credentials, ("cluster-deleted",), "truth", id="Ready without credentials"),
    pytest.param(sees_no_others, ("scale",), "overcommit", id="deployments do not see each other"),
    pytest.param(goes_by_names, ("scale",), "tenants", id="two tenants share a namespace"),
    pytest.param(one_too_many, ("scale",), "doubled", id="one replica too many"),
    pytest.param(forgets_what_serves, ("scale",), "lost", id="what serves is dropped"),
    pytest.param(says_ready, ("scale",), "status", id="Ready before it serves"),
    pytest.param(believes_desired, ("node-lost",), "status", id="ready without being observed"),
    pytest.param(places_nothing, ("scale",), "placed", id="nothing is placed"),
    pytest.param(counts_its_calls, ("scale",), "converges", id="a status that never rests"),
    pytest.param(asks_to_be_called, ("scale",), "queues", id="a hot loop"),
    pytest.param(endpoint_of_another, ("scale",), "clients", id="an endpoint that leads nowhere"),
    pytest.param(fails_on_a_taint, ("taint",), "raised", id="an exception"),
]
SEEDS = range(30)


@pytest.mark.slow
@pytest.mark.parametrize(("broken", "faults", "checker"), DEFECTS)
def test_a_defect_is_found_by_its_checker_and_its_world_is_fine_without(monkeypatch, broken, faults, checker):
    is_found(monkeypatch, broken, faults, checker, SEEDS)


def is_found(monkeypatch, broken, faults, checker, seeds):
    with monkeypatch.context() as patched:
        broken(patched)
        outcomes = (run_world(seed, only=faults) for seed in seeds)
        found = next((outcome for outcome in outcomes if outcome.checker == checker), None)
    assert found is not None
    assert run_world(found.seed, only=faults).violation == ""
