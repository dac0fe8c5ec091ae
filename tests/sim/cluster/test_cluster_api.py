import pytest

from modelplane.api.errors import NotFoundError, UnavailableError
from modelplane.api.objects import manifest
from modelplane.reconcile.store import ref_of
from modelplane.testing.cluster import run_cluster, service


def test_nothing_is_created_in_a_namespace_that_is_not_there():
    async def main(lab):
        lost = manifest("v1", "Service", "x", namespace="nowhere")
        with pytest.raises(NotFoundError, match="cluster east: Service x: namespace nowhere not found"):
            lab.cluster.api.create(lost)

    run_cluster(main)


def test_a_cluster_that_is_down_answers_nothing():
    async def main(lab):
        api = lab.cluster.api
        made = api.create(service())
        ref = ref_of(made)
        await lab.cluster.fail()
        calls = [
            lambda: api.revision,
            lambda: api.get(ref),
            lambda: api.list("", "Service"),
            api.kinds,
            lambda: api.create(service("other")),
            lambda: api.replace(made),
            lambda: api.replace_status(made),
            lambda: api.delete(ref),
        ]
        for call in calls:
            with pytest.raises(UnavailableError, match="cluster east is unreachable"):
                call()
        await lab.cluster.recover()
        return api.get(ref) == made, api.revision == lab.store.revision, api.kinds() == lab.store.kinds()

    assert run_cluster(main) == (True, True, True)


def test_changes_are_heard_and_writes_can_be_one():
    async def main(lab):
        heard = []
        end = lab.cluster.api.subscribe(lambda change: heard.append(change.ref.name))
        with lab.cluster.api.batch():
            lab.cluster.api.create(service("a"))
            lab.cluster.api.create(service("b"))
            inside = list(heard)
        end()
        lab.cluster.api.delete(ref_of(service("a")), uid=None)
        return inside, heard

    assert run_cluster(main) == ([], ["a", "b"])
