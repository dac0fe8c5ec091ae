"""Requests made from the APIs' own descriptions: whatever is sent, no answer is a server error."""

import asyncio
import json
import os
from urllib.parse import quote, urlencode

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelplane.apiserver import openapi
from modelplane.epp.replay.snapshot import encode
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.server.observe import AdminServer, PickerCollector, PickerMetrics, PoolStats
from tests.apiserver.conftest import AUTH, serving
from tests.fuzz.schemas import ANY, TEXTS, values

EXAMPLES = int(os.environ.get("MODELPLANE_FUZZ_EXAMPLES", "50"))
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
SERVER_ERROR = 500
MEDIA = (
    "application/json",
    "application/yaml",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
)
# A watch is a stream without an end.
STREAMS = frozenset(("watch", "sendInitialEvents", "timeoutSeconds"))
OPERATION = st.fixed_dictionaries(
    {"op": st.sampled_from(("add", "remove", "replace", "move", "copy", "test"))},
    optional={
        "path": st.sampled_from(("", "/metadata", "/spec", "/metadata/labels/-", "/x/0")) | TEXTS,
        "from": TEXTS,
        "value": ANY,
    },
)


def operations():
    """Path, method, parameters and the schema of the body, of every operation that is described."""
    for group in json.loads(openapi.paths())["paths"]:
        document = json.loads(openapi.document(group))
        components = document.get("components", {}).get("schemas", {})
        for path, methods in document.get("paths", {}).items():
            shared = methods.get("parameters", [])
            for method, described in methods.items():
                if isinstance(described, dict) and method in {"get", "post", "put", "patch", "delete"}:
                    yield path, method, [*shared, *described.get("parameters", ())], _body(described), components


def _body(described):
    content = described.get("requestBody", {}).get("content", {})
    return next((each.get("schema") for each in content.values()), None)


OPERATIONS = list(operations())


@st.composite
def requests(draw):
    path, method, parameters, schema, components = draw(st.sampled_from(OPERATIONS))
    for name in ("namespace", "name"):
        filled = draw(
            st.sampled_from(("default", "chat", "n")) | TEXTS.filter(lambda text: text not in {"", ".", ".."})
        )
        path = path.replace("{" + name + "}", quote(filled, safe=""))
    known = [each["name"] for each in parameters if each.get("in") == "query" and each["name"] not in STREAMS]
    query = (
        draw(st.dictionaries(st.sampled_from(known), TEXTS | st.sampled_from(("1", "true", "0")), max_size=3))
        if known
        else {}
    )
    body = None
    if method in {"post", "put", "patch", "delete"}:
        body = draw((values(schema, components) if schema else ANY) | st.lists(OPERATION, max_size=4) | ANY)
    media = draw(st.sampled_from(MEDIA))
    return method.upper(), path + ("?" + urlencode(query, errors="replace") if query else ""), body, media


def encoded(body):
    return None if body is None else json.dumps(body).encode("utf-8", "replace")


def errors_of(sent):
    """The requests that were answered by a server error."""

    async def main():
        found = []
        async with serving() as client:
            for method, path, body, media in sent:
                headers = {**AUTH, "Content-Type": media}
                async with client.session.request(method, path, data=encoded(body), headers=headers) as answer:
                    await answer.read()
                    if answer.status >= SERVER_ERROR:
                        found.append((method, path, body, media, answer.status))
        return found

    return asyncio.run(main())


@pytest.mark.slow
def test_no_request_to_the_embedded_api_is_answered_by_a_server_error():
    @settings(max_examples=max(5, EXAMPLES // 2), suppress_health_check=SLOW)
    @given(st.lists(requests(), min_size=5, max_size=20))
    def run(sent):
        assert errors_of(sent) == []

    run()


def test_every_described_kind_has_operations():
    assert len(OPERATIONS) > 50
    assert {method for _, method, _, _, _ in OPERATIONS} == {"get", "post", "put", "patch", "delete"}


PATHS = st.sampled_from(("/metrics", "/healthz", "/readyz", "/debug/state", "/", "/nope", "/metrics/.."))
ADMIN = st.tuples(
    st.sampled_from(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")),
    PATHS,
    st.dictionaries(TEXTS, TEXTS, max_size=2),
    st.binary(max_size=50),
)


@pytest.mark.slow
def test_no_request_to_the_pickers_side_door_is_answered_by_a_server_error():
    async def main(sent):
        endpoint = Endpoint("team/p", "10.0.0.1:8000")
        page = PickerCollector(PickerMetrics(), lambda: PoolStats("pool", (endpoint,)))
        server = AdminServer(page, ("127.0.0.1", 0), state=lambda: encode((endpoint,), 1.0))
        await server.start()
        found = []
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
            for method, path, query, body in sent:
                full = path + "?" + urlencode(query, errors="replace")
                async with session.request(method, full, data=body) as answer:
                    await answer.read()
                    found.append(answer.status)
        await server.stop()
        return found

    @settings(max_examples=max(5, EXAMPLES // 5), suppress_health_check=SLOW)
    @given(st.lists(ADMIN, min_size=1, max_size=20))
    def run(sent):
        assert all(status < SERVER_ERROR for status in asyncio.run(main(sent)))

    run()
