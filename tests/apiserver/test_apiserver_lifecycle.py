"""Owners and dependents, and namespaces."""

import pytest

MAPS = "/api/v1/namespaces/default/configmaps"


def owned_by(*owners, block=True):
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]


async def make(client, name, owners=(), finalizers=()):
    metadata = {"name": name, "ownerReferences": list(owners), "finalizers": list(finalizers)}
    return (await client.ask("POST", MAPS, {"metadata": metadata}))[1]


async def left(client):
    await client.lifecycle.loop.settle(1.0, quiet_s=0.05)
    return [item["metadata"]["name"] for item in (await client.ask("GET", MAPS))[1]["items"]]


@pytest.mark.parametrize(
    ("policy", "remaining"),
    [("Background", ["two"]), ("Foreground", ["two"]), ("Orphan", ["child", "grandchild", "two"])],
)
def test_what_becomes_of_dependents(over_http, policy, remaining):
    async def story(client):
        one, two = await make(client, "one"), await make(client, "two")
        child = await make(client, "child", owned_by(one))
        await make(client, "grandchild", owned_by(child))
        if policy != "Orphan":
            await make(client, "shared", owned_by(one, two))
            remaining.insert(0, "shared")
        await client.ask("DELETE", f"{MAPS}/one?propagationPolicy={policy}")
        assert await left(client) == remaining
        for name in remaining:
            found = (await client.ask("GET", f"{MAPS}/{name}"))[1]["metadata"].get("ownerReferences", [])
            assert one["metadata"]["uid"] not in [owner["uid"] for owner in found]

    over_http(story)


def test_a_policy_overrides_the_finalizer_that_an_object_has(over_http):
    async def story(client):
        owner = await make(client, "owner", finalizers=["orphan"])
        await make(client, "child", owned_by(owner))
        await client.ask("DELETE", f"{MAPS}/owner?propagationPolicy=Background")
        assert await left(client) == []

    over_http(story)


def test_a_foreground_deletion_waits_for_what_blocks_it(over_http):
    async def story(client):
        owner = await make(client, "owner")
        await make(client, "child", owned_by(owner), finalizers=["example.com/x"])
        code, held = await client.ask("DELETE", f"{MAPS}/owner?propagationPolicy=Foreground")
        assert (code, held["metadata"]["finalizers"]) == (200, ["foregroundDeletion"])
        assert await left(client) == ["child", "owner"]
        await client.ask(
            "PATCH", f"{MAPS}/child", {"metadata": {"finalizers": None}}, media="application/merge-patch+json"
        )
        assert await left(client) == []

    over_http(story)


def test_an_owner_that_never_was_takes_the_dependent_with_it(over_http):
    async def story(client):
        owner = await make(client, "owner")
        await make(client, "of-another-life", [{**owned_by(owner)[0], "uid": "not-this-one"}])
        assert await left(client) == ["owner"]

    over_http(story)


def test_a_namespace_goes_with_everything_in_it(over_http):
    async def story(client):
        await client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        for kind in ("configmaps", "secrets"):
            await client.ask("POST", f"/api/v1/namespaces/team/{kind}", {"metadata": {"name": "x"}})
        await client.ask("DELETE", "/api/v1/namespaces/team")
        await left(client)
        assert (await client.ask("GET", "/api/v1/namespaces/team"))[0] == 404
        assert client.store.list("", "ConfigMap", namespace="team") == ()
        assert (await client.ask("DELETE", "/api/v1/namespaces/default"))[0] == 403

    over_http(story)
