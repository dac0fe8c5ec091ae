"""Writes: what recorded answers do not show, such as dry runs, limits and the kinds that only the plane writes."""

import asyncio
from urllib.parse import quote

import pytest

from modelplane.apiserver.objects import NAMESPACE_FINALIZER

SERVICES = "/apis/modelplane.ai/v1alpha1/namespaces/default/modelservices"
DEPLOYMENTS = "/apis/modelplane.ai/v1alpha1/namespaces/default/modeldeployments"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


def service(name, **metadata):
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelService",
        "metadata": {"name": name, **metadata},
        "spec": {"endpoints": [{"selector": {"matchLabels": {"app": "qwen"}}}]},
    }


def config_map(name, **fields):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields}


def test_a_dry_run_answers_as_if_and_keeps_nothing(over_http):
    async def story(client):
        on_change = []
        client.store.subscribe(on_change.append)
        revision = client.store.revision
        code, made = await client.ask("POST", f"{SERVICES}?dryRun=All", service("a"))
        assert (code, made["spec"]["endpoints"][0]["weight"], "resourceVersion" in made["metadata"]) == (201, 1, False)
        assert (client.store.revision, on_change) == (revision, [])
        await client.ask("POST", SERVICES, service("a"))
        before = (await client.ask("GET", f"{SERVICES}/a"))[1]
        patch = {"metadata": {"labels": {"x": "y"}}}
        for method, path, body, media in (
            ("PATCH", f"{SERVICES}/a?dryRun=All", patch, MERGE),
            ("PATCH", f"{SERVICES}/a/status?dryRun=All", {"status": {"address": "q"}}, MERGE),
            ("PATCH", f"{SERVICES}/a?dryRun=All&fieldManager=x&force=true", service("a", labels={"x": "y"}), APPLY),
            ("DELETE", f"{SERVICES}/a?dryRun=All", None, "application/json"),
            ("DELETE", f"{SERVICES}?dryRun=All", None, "application/json"),
        ):
            code, _ = await client.ask(method, path, body, media=media)
            assert code == 200
            assert (await client.ask("GET", f"{SERVICES}/a"))[1] == before

    over_http(story)


def test_a_write_that_changes_nothing_is_no_write(over_http):
    async def story(client):
        _, made = await client.ask("POST", SERVICES, service("a"))
        for body, media in (({}, MERGE), ({"spec": made["spec"]}, MERGE), ([], "application/json-patch+json")):
            assert (await client.ask("PATCH", f"{SERVICES}/a", body, media=media)) == (200, made)
        assert (await client.ask("PUT", f"{SERVICES}/a", made)) == (200, made)

    over_http(story)


def test_only_what_changed_is_judged_and_all_of_it(over_http):
    async def story(client):
        await client.ask("POST", SERVICES, service("a"))
        for path, patch in (
            ("", {"spec": {"endpoints": "x"}}),
            ("", {"metadata": {"labels": {"a b": "c"}}}),
            ("/status", {"status": {"address": 3}}),
        ):
            code, answer = await client.ask("PATCH", f"{SERVICES}/a{path}", patch, media=MERGE)
            assert (code, answer["reason"]) == (422, "Invalid")
        code, answer, headers = await client.answer("PATCH", f"{SERVICES}/a/status", {"status": {"no": 1}}, media=MERGE)
        assert (code, headers["Warning"]) == (200, '299 - "unknown field \\"status.no\\""')

    over_http(story)


def test_a_status_write_keeps_the_rest_and_a_write_keeps_the_status(over_http):
    async def story(client):
        _, made = await client.ask("POST", SERVICES, service("a"))
        changed = {
            **made,
            "metadata": {**made["metadata"], "labels": {"x": "y"}},
            "spec": {},
            "status": {"address": "q"},
        }
        _, after = await client.ask("PUT", f"{SERVICES}/a/status", changed)
        assert (after["spec"], after["status"], "labels" in after["metadata"]) == (
            made["spec"],
            {"address": "q"},
            False,
        )
        _, last = await client.ask("PUT", f"{SERVICES}/a", {**after, "status": {"address": "other"}})
        assert last["status"] == {"address": "q"}

    over_http(story)


def test_names_are_generated_if_requested(over_http):
    async def story(client):
        names = set()
        for _ in range(3):
            body = {**service(""), "metadata": {"generateName": "gen-"}}
            names.add((await client.ask("POST", SERVICES, body))[1]["metadata"]["name"])
        assert len(names) == 3
        assert all(name.startswith("gen-") for name in names)

    over_http(story)


def test_scale_is_read_and_written(over_http):
    deployment = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "m"},
        "spec": {
            "replicas": 2,
            "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": "true"}]}]},
            "workers": {"template": {"spec": {"containers": [{"name": "engine", "image": "vllm"}]}}},
        },
    }

    async def story(client):
        assert (await client.ask("POST", DEPLOYMENTS, deployment))[0] == 201
        _, scale = await client.ask("GET", f"{DEPLOYMENTS}/m/scale")
        assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 2}, {"replicas": 0})
        code, scaled = await client.ask("PUT", f"{DEPLOYMENTS}/m/scale", {**scale, "spec": {"replicas": 5}})
        assert (code, scaled["spec"]) == (200, {"replicas": 5})
        assert (await client.ask("PUT", f"{DEPLOYMENTS}/m/scale", scale))[0] == 409
        for wrong in ({**scale, "kind": "Pod"}, {**scale, "spec": {"replicas": "x"}}, []):
            assert (await client.ask("PUT", f"{DEPLOYMENTS}/m/scale", wrong))[0] == 400
        assert (await client.ask("GET", f"{DEPLOYMENTS}/m"))[1]["spec"]["replicas"] == 5

    over_http(story)


def test_core_kinds_show_no_generation_and_take_unconditional_writes(over_http):
    async def story(client):
        _, made = await client.ask("POST", MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
        assert "generation" not in made["metadata"]
        code, replaced = await client.ask("PUT", f"{MAPS}/c", config_map("c", data={"a": "2"}))
        assert (code, replaced["data"]) == (200, {"a": "2"})
        listed = (await client.ask("GET", MAPS))[1]["items"]
        assert listed == [replaced]

    over_http(story)


@pytest.mark.parametrize("kind", ["gateways", "httproutes"])
def test_what_the_plane_composes_can_be_read_only(over_http, kind):
    async def story(client):
        path = f"/apis/gateway.networking.k8s.io/v1/namespaces/default/{kind}"
        assert (await client.ask("GET", path))[0] == 200
        for method, name in (("POST", ""), ("PUT", "/a"), ("PATCH", "/a"), ("DELETE", "/a"), ("DELETE", "")):
            assert (await client.ask(method, f"{path}{name}", {}))[0] == 405

    over_http(story)


def test_a_namespace_keeps_its_finalizer(over_http):
    async def story(client):
        await client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
        await client.ask("DELETE", "/api/v1/namespaces/n")
        path = "/api/v1/namespaces/n"
        _, patched = await client.ask(
            "PATCH", path, {"metadata": {"finalizers": None, "labels": {"a": "b"}}}, media=MERGE
        )
        assert patched["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "n"}
        assert NAMESPACE_FINALIZER not in patched["metadata"].get("finalizers", [])
        assert (await client.ask("GET", path))[0] == 200

    over_http(story, collect_garbage=False)


def test_self_subject_reviews_are_answered(over_http):
    async def story(client):
        review = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        code, answer = await client.ask("POST", path, review)
        assert (code, answer["status"]) == (201, {"allowed": True})
        assert (await client.ask("GET", path))[0] == 405
        assert (await client.ask("POST", path, {"kind": "Pod"}))[0] == 400
        code, answer = await client.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert answer["status"]["userInfo"]["username"] == "modelplane-admin"

    over_http(story)


def test_a_large_body_is_read_beside_others(over_http):
    async def story(client):
        data = {"a": "x" * 300_000}
        code, made = await client.ask("POST", MAPS, {"metadata": {"name": "big"}, "data": data})
        assert (code, made["data"]) == (201, data)

    over_http(story)


def test_no_update_of_many_writers_is_lost(over_http):
    async def count_up(client, times):
        done = 0
        while done < times:
            _, found = await client.ask("GET", f"{MAPS}/count")
            found["data"]["n"] = str(int(found["data"]["n"]) + 1)
            code, _ = await client.ask("PUT", f"{MAPS}/count", found)
            assert code in {200, 409}
            done += code == 200

    async def story(client):
        await client.ask("POST", MAPS, config_map("count", data={"n": "0"}))
        await asyncio.gather(*(count_up(client, 10) for _ in range(6)))
        assert (await client.ask("GET", f"{MAPS}/count"))[1]["data"] == {"n": "60"}

    over_http(story)


@pytest.mark.parametrize("hostile", ["<script>", "\u202e", "\r\nSet-Cookie: a=b", "../../x", "\x00", "ä", '"', "%00"])
def test_hostile_text_comes_back_as_json_or_not_at_all(over_http, hostile):
    async def story(client):
        body = {**service("a"), "spec": {**service("a")["spec"], hostile: 1}, hostile: 2}
        code, _, headers = await client.answer("POST", SERVICES, body)
        assert (code, headers["Content-Type"]) == (201, "application/json")
        assert all(text.isascii() and text.isprintable() for text in headers.getall("Warning"))
        assert "Set-Cookie" not in headers
        code, _, headers = await client.answer("GET", f"{SERVICES}/{quote(hostile, safe='')}")
        assert (code, headers["Content-Type"].partition(";")[0]) in {(404, "application/json"), (404, "text/plain")}

    over_http(story)
