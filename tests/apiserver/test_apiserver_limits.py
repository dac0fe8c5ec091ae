"""Limits of what a request may cost: depth, copies of a patch, and the size of an object."""

import base64
import json
import logging
import time

import pytest

from modelplane.apiserver.bodies import check_depth
from modelplane.apiserver.writes import OBJECT_BYTES_MOST

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
SERVICES = "/apis/modelplane.ai/v1alpha1/namespaces/default/modelservices"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
MIB = 1024 * 1024
SERVICE = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelService",
    "metadata": {"name": "a", "annotations": {"note": "x"}},
    "spec": {"endpoints": [{"selector": {"matchLabels": {"app": "qwen"}}}]},
}


def nested(levels):
    return '{"a":' * levels + '"x"' + "}" * levels


@pytest.mark.parametrize("levels", [70, 500, 900, 3_000])
@pytest.mark.parametrize("path", [MAPS, SERVICES])
def test_a_deeply_nested_body_is_a_bad_request_by_every_verb(over_http, caplog, levels, path):
    async def story(client):
        kind = {} if path == SERVICES else {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        known = SERVICE | kind
        assert (await client.ask("POST", path, {key: known[key] for key in known if not kind or key in kind}))[0] == 201
        annotated = f'{{"metadata":{{"name":"a","annotations":{nested(levels)}}}}}'
        whole = f'{{"apiVersion":"{known["apiVersion"]}","kind":"{known["kind"]}",{annotated[1:]}'
        added = f'[{{"op":"add","path":"/metadata/annotations","value":{nested(levels)}}}]'
        for method, where, body, media in (
            ("PATCH", f"{path}/a", annotated, MERGE),
            ("PATCH", f"{path}/a", annotated, STRATEGIC if kind else MERGE),
            ("PATCH", f"{path}/a", added, JSON_PATCH),
            ("PATCH", f"{path}/a?fieldManager=x", whole, APPLY),
            ("PUT", f"{path}/a", whole, "application/json"),
            ("POST", path, whole.replace('"name":"a"', '"name":"b"'), "application/json"),
        ):
            status, answer = await client.ask(method, where, body, media=media)
            assert (status, answer["reason"]) == (400, "BadRequest"), (method, media, answer)
        assert not [each for each in caplog.records if each.levelno >= logging.ERROR]

    over_http(story)


@pytest.mark.parametrize(("levels", "fits"), [(0, True), (64, True), (65, False)])
def test_the_depth_of_lists_and_objects_is_bounded(levels, fits):
    for start, end in (("[", "]"), ('{"a":', "}")):
        for inner in ("1", "") if start == "[" else ("1", "{}"):
            opened = levels - (inner == "{}")
            if opened < 0 or not levels:
                continue
            value = json.loads(start * opened + inner + end * opened)
            if fits:
                check_depth(value)
            else:
                with pytest.raises(ValueError, match="deeper than 64 levels"):
                    check_depth(value)
    check_depth("x")


def test_a_small_patch_of_many_copies_is_refused_in_milliseconds(over_http):
    async def story(client):
        await client.ask("POST", SERVICES, SERVICE)
        copied = "/metadata/annotations"
        operations = [{"op": "copy", "from": copied, "path": f"{copied}/b{number}"} for number in range(20)]
        assert len(json.dumps(operations)) <= 1_710
        started = time.process_time()
        status, answer = await client.ask("PATCH", f"{SERVICES}/a", operations, media=JSON_PATCH)
        assert (status, answer["reason"]) == (422, "Invalid")
        assert "Unable to complete the copy" in answer["message"]
        # It took 18 s. A collection of a large process in between takes seconds, too.
        assert time.process_time() - started < 8
        assert (await client.ask("GET", f"{SERVICES}/a"))[1]["metadata"]["annotations"] == {"note": "x"}

    over_http(story)


def config_map(size):
    """A valid ConfigMap of about this size: keys do not count as data."""
    data = {f"{number:0250}": "" for number in range(size // 256)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


@pytest.mark.parametrize(
    ("method", "path", "media"),
    [
        ("POST", MAPS, "application/json"),
        ("PUT", f"{MAPS}/a", "application/json"),
        ("PATCH", f"{MAPS}/a", MERGE),
        ("PATCH", f"{MAPS}/a", STRATEGIC),
        ("PATCH", f"{MAPS}/a?fieldManager=x&force=true", APPLY),
        ("PATCH", f"{MAPS}/b?fieldManager=x&force=true", APPLY),
    ],
)
def test_an_object_that_etcd_would_not_store_is_refused_in_its_words(over_http, method, path, media):
    async def story(client):
        if method != "POST":
            await client.ask("POST", MAPS, config_map(0))
        before = client.store.revision
        large = config_map(OBJECT_BYTES_MOST + 10_000)
        large["metadata"]["name"] = "b" if "/b?" in path else "a"
        status, answer = await client.ask(method, path, large, media=media)
        assert (status, answer["reason"]) == (413, "RequestEntityTooLarge"), answer["message"][:200]
        assert answer["message"] == "etcdserver: request is too large"
        assert client.store.revision == before

    over_http(story)


def test_managed_fields_are_left_out_where_only_they_make_an_object_too_large(over_http):
    async def story(client):
        large = config_map(OBJECT_BYTES_MOST - 300_000)
        status, made = await client.ask("POST", MAPS, large)
        assert (status, made["data"]) == (201, large["data"])
        assert "managedFields" not in made["metadata"]

    over_http(story)


@pytest.mark.parametrize(
    ("path", "field", "text", "code"),
    [
        (MAPS, "data", "x" * MIB, 201),
        (MAPS, "data", "x" * (MIB + 1), 422),
        (MAPS, "data", "ä" * (MIB // 2 + 1), 422),
        (MAPS, "binaryData", base64.b64encode(b"x" * MIB).decode(), 201),
        (MAPS, "binaryData", base64.b64encode(b"x" * (MIB + 1)).decode(), 422),
        (SECRETS, "data", base64.b64encode(b"x" * MIB).decode(), 201),
        (SECRETS, "data", base64.b64encode(b"x" * (MIB + 1)).decode(), 422),
        (SECRETS, "stringData", "x" * (MIB + 1), 422),
    ],
)
def test_the_data_of_a_config_map_or_a_secret_is_at_most_one_mebibyte(over_http, path, field, text, code):
    async def story(client):
        body = json.dumps({"metadata": {"name": "a"}, field: {"k": text}}, ensure_ascii=False)
        status, answer = await client.ask("POST", path, body)
        assert status == code, answer["message"][:200]
        if code == 422:
            assert "Too long: may not be more than 1048576 bytes" in answer["message"]
            assert answer["details"]["causes"][0]["reason"] == "FieldValueTooLong"

    over_http(story)
