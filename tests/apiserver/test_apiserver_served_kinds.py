"""The plane's kinds as CustomResourceDefinitions: as many as it serves, kept up with them, and left alone otherwise."""

import pytest

from modelplane.api.definitions import definitions
from modelplane.apiserver.served_kinds import GROUP, KIND, ensure_kinds
from modelplane.apiserver.store.database import Database
from modelplane.reconcile.clock import SystemClock
from modelplane.reconcile.store import ObjectRef

DEPLOYMENTS = ObjectRef(GROUP, KIND, "", "modeldeployments.modelplane.ai")


@pytest.fixture(name="store")
def a_store():
    with Database(None, clock=SystemClock()) as database:
        yield database.store("plane")


def test_every_kind_is_there_and_established(store):
    ensure_kinds(store, 0.0)
    found = store.list(GROUP, KIND)
    assert {each["spec"]["names"]["kind"] for each in found} == {each.kind for each in definitions().values()}
    for each in found:
        held = {condition["type"] for condition in each["status"]["conditions"] if condition["status"] == "True"}
        assert held == {"NamesAccepted", "Established"}
        assert each["status"]["acceptedNames"] == each["spec"]["names"]
        assert each["metadata"]["name"] == f"{each['spec']['names']['plural']}.{each['spec']['group']}"


def test_what_is_as_it_should_be_is_not_written_again(store):
    ensure_kinds(store, 0.0)
    before = store.revision
    ensure_kinds(store, 1.0)
    assert store.revision == before


def test_those_of_another_version_of_the_plane_are_put_right(store):
    ensure_kinds(store, 0.0)
    known = store.get(DEPLOYMENTS)
    store.replace({**known, "spec": {**known["spec"], "scope": "Cluster"}})
    gone = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": "gone.modelplane.ai"}, "spec": {}}
    store.create(gone)
    ensure_kinds(store, 1.0)
    assert store.get(DEPLOYMENTS)["spec"] == known["spec"]
    assert store.get(ObjectRef(GROUP, KIND, "", "gone.modelplane.ai")) is None
