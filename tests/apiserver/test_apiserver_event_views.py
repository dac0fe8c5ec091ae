"""Events as events.k8s.io, and the kinds that general tools request first."""

import pytest

from modelplane.apiserver.event_views import as_view

CORE = "/api/v1/namespaces/default/events"
NEWER = "/apis/events.k8s.io/v1/namespaces/default/events"
EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "chat.1", "namespace": "default"},
    "involvedObject": {"kind": "ModelDeployment", "name": "chat", "namespace": "default"},
    "reason": "Placed",
    "message": "replica 0 is placed on cluster east",
    "type": "Normal",
    "count": 2,
    "firstTimestamp": "2026-11-15T00:00:00Z",
    "lastTimestamp": "2026-11-15T00:00:01Z",
    "source": {"component": "modelplane"},
}
VIEW = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": EVENT["metadata"],
    "regarding": EVENT["involvedObject"],
    "reason": "Placed",
    "note": "replica 0 is placed on cluster east",
    "type": "Normal",
    "deprecatedCount": 2,
    "deprecatedFirstTimestamp": "2026-11-15T00:00:00Z",
    "deprecatedLastTimestamp": "2026-11-15T00:00:01Z",
    "deprecatedSource": {"component": "modelplane"},
    "eventTime": None,
}


def test_the_same_in_other_words():
    assert as_view(EVENT) == VIEW


def test_both_forms_show_one_object(over_http):
    async def story(client):
        assert (await client.ask("POST", CORE, EVENT))[0] == 201
        _, core = await client.ask("GET", f"{CORE}/chat.1")
        _, newer = await client.ask("GET", f"{NEWER}/chat.1")
        assert newer == {**VIEW, "metadata": core["metadata"]}
        assert await client.ask("GET", f"{CORE}/chat.1") == (200, core)
        _, listed = await client.ask("GET", "/apis/events.k8s.io/v1/events")
        assert (listed["kind"], listed["apiVersion"], listed["items"]) == ("EventList", "events.k8s.io/v1", [newer])

    over_http(story)


def test_their_table_is_that_of_events(over_http):
    async def story(client):
        await client.ask("POST", CORE, EVENT)
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
        _, core, _ = await client.answer("GET", CORE, accept=accept)
        _, newer, _ = await client.answer("GET", NEWER, accept=accept)
        assert [each["name"] for each in newer["columnDefinitions"]][:3] == ["Last Seen", "Type", "Reason"]
        assert newer["rows"][0]["cells"][1:4] == core["rows"][0]["cells"][1:4]

    over_http(story)


def test_they_cannot_be_written_in_these_words(over_http):
    async def story(client):
        assert (await client.ask("POST", NEWER, VIEW))[0] == 405

    over_http(story)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/v1/pods", "PodList"),
        ("/api/v1/namespaces/kube-system/services", "ServiceList"),
        ("/api/v1/nodes", "NodeList"),
    ],
)
def test_what_runs_on_the_clusters_is_not_here(over_http, path, kind):
    async def story(client):
        status, listed = await client.ask("GET", path)
        assert (status, listed["kind"], listed["items"]) == (200, kind, [])
        assert (await client.ask("POST", path, {"kind": kind.removesuffix("List")}))[0] in {404, 405}

    over_http(story)


def test_a_kind_that_is_not_served_is_not_taken_for_a_namespace(over_http):
    async def story(client):
        path = "/api/v1/namespaces/default/serviceaccounts"
        assert await client.ask("POST", path, {"kind": "ServiceAccount"}) == (404, "404 page not found\n")

    over_http(story)
