"""The API beside a real one: what Kubernetes 1.36.3 answered to the same requests, with our definitions installed.

`recorded.json` holds the requests in their order, and of each answer the status, the warnings and the body without
times, identities, versions and sentences. Answers that differ on purpose are listed here with the reason.

The column REASON of the three `md table` answers and the defaults of `spec.rollout` in eight answers are not recorded:
they were written in when the definition got them, as the fields beside them. The next recording replaces them.
"""

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())

WRONG_REQUEST = "the real one answers 500 to a request that is wrong; 400 says whose mistake it is"
ONCE = "the real one says the same thing twice"
SMALLER = "an Event keeps the fields that its writer gave"
DIFFERENT = {
    "create rv": WRONG_REQUEST,
    "put rv text": WRONG_REQUEST,
    "apply invalid": WRONG_REQUEST,
    "apply unknown": WRONG_REQUEST,
    "apply unknown strict": WRONG_REQUEST,
    "apply md scale": WRONG_REQUEST,
    "watch bad rv": WRONG_REQUEST,
    "405": "the real one reads the body before it refuses the method",
    "bad label": "the key that is wrong is named, and not only its map",
    "spec invalid 2": ONCE,
    "spec invalid 3": ONCE,
    "md scale neg": ONCE,
    "fin add": ONCE,
    "del uid": "the details name the resource, as those of every other conflict do",
    "del rv": "the details name the resource, as those of every other conflict do",
    "ev": SMALLER,
    "ev list": SMALLER,
}
UNSAID = {"description", "message", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time"}


def comparable(value):
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if not isinstance(value, dict):
        return re.sub(r"^\d+s$", "0s", value) if isinstance(value, str) else value
    found = {}
    for name, item in value.items():
        if name in UNSAID or item in ("", None):
            continue
        if name == "managedFields":
            found[name] = sorted(map(comparable, item), key=lambda entry: json.dumps(entry, sort_keys=True))
        elif name == "causes":
            found[name] = [[cause["reason"], cause.get("field", "")] for cause in item]
        else:
            found[name] = comparable(item)
    return found


def decoded(answer):
    if isinstance(answer, str):
        with suppress(ValueError):
            return json.loads(answer)
    return answer.strip() if isinstance(answer, str) else answer


async def compare(client, step):
    options = {name: step[name] for name in ("media", "accept") if name in step}
    code, answer, headers = await client.answer(step["method"], step["path"], step.get("body"), **options)
    warnings = headers.getall("Warning", [])
    expected = json.loads(json.dumps(step["answer"]).replace('"Python"', '"tests"'))
    got = (code, warnings, comparable(decoded(answer)))
    return [] if got == (step["code"], step.get("warnings", []), comparable(expected)) else [(step["name"], got)]


def test_every_answer_is_that_of_the_real_server_but_for_those_that_differ_on_purpose(over_http):
    async def story(client):
        different = []
        for step in RECORDED:
            different += await compare(client, step)
        assert {name: got for name, got in different if name not in DIFFERENT} == {}
        assert {name for name, _ in different} == set(DIFFERENT)

    over_http(story, collect_garbage=False)


def test_a_namespace_that_ends_takes_nothing_new_and_goes(over_http):
    async def story(client):
        await client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "wire"}})
        held = {"metadata": {"name": "held", "finalizers": ["example.com/x"]}}
        await client.ask("POST", "/api/v1/namespaces/wire/configmaps", held)
        await client.ask("POST", "/api/v1/namespaces/wire/configmaps", {"metadata": {"name": "loose"}})
        code, ending = await client.ask("DELETE", "/api/v1/namespaces/wire")
        assert (code, ending["status"], ending["metadata"].get("finalizers")) == (200, {"phase": "Terminating"}, None)
        code, refused = await client.ask("POST", "/api/v1/namespaces/wire/configmaps", {"metadata": {"name": "late"}})
        assert (code, refused["reason"]) == (403, "Forbidden")
        assert refused["details"]["causes"][0]["reason"] == "NamespaceTerminating"
        await client.lifecycle.loop.settle(1.0, quiet_s=0.05)
        assert (await client.ask("GET", "/api/v1/namespaces/wire"))[0] == 200
        await client.ask(
            "PATCH",
            "/api/v1/namespaces/wire/configmaps/held",
            {"metadata": {"finalizers": None}},
            media="application/merge-patch+json",
        )
        await client.lifecycle.loop.settle(1.0, quiet_s=0.05)
        await asyncio.sleep(0)
        assert (await client.ask("GET", "/api/v1/namespaces/wire"))[0] == 404

    over_http(story)
