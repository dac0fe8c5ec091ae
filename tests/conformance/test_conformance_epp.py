"""The conformance kit: our picker passes it whole, and pickers that break a rule are found out by the case for it."""

import asyncio
import json
import shlex
import sys
from contextlib import asynccontextmanager

import pytest

from modelplane.cli import main
from modelplane.conformance.epp import CASES, KitEndpoint, PickerUnderTest, run_cases
from modelplane.conformance.epp.file_pool import FilePool
from modelplane.conformance.epp.own import ADDRESSES
from modelplane.conformance.epp.upstreams import Upstreams
from modelplane.envoy.ports import free_port
from modelplane.epp.datalayer.discovery.endpoints_file import read_endpoints
from modelplane.epp.server.messages import METHOD, UNCHANGED, immediate_response, mutate_request, read, stream_body
from modelplane.epp.server.processing_request import ProcessingPhase
from modelplane.epp.transport.calls import Settings
from modelplane.epp.transport.h2.server import H2Server


@pytest.mark.submission
def test_our_own_picker_passes_every_case(capsys):
    assert main(["picker", "conformance", "--self", "--strict"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{len(CASES)} passed, 0 failed"


class Naive:
    """Answers one call as the first attempt at a picker would."""

    def __init__(self, call, pool, faults):
        self._call, self._pool, self._faults = call, pool, faults
        self._body = b""
        self._mode = 0
        self._headers = {}

    def message(self, message):
        incoming = read(message)
        match incoming.phase:
            case ProcessingPhase.REQUEST_HEADERS:
                self._headers = incoming.headers
                self._mode = incoming.request_mode
                if incoming.ends or self._mode in {0, 1}:
                    self._call.send(mutate_request(ProcessingPhase.REQUEST_HEADERS, self._pick()))
                elif self._mode == 2:
                    self._call.send(UNCHANGED[ProcessingPhase.REQUEST_HEADERS])
            case ProcessingPhase.REQUEST_BODY:
                self._take(incoming)
            case ProcessingPhase.RESPONSE_BODY:
                self._call.send(stream_body(ProcessingPhase.RESPONSE_BODY, incoming.body, ends=incoming.ends))
            case phase if phase in UNCHANGED:
                self._call.send(UNCHANGED[phase])

    def _take(self, incoming):
        self._body += incoming.body
        if not incoming.ends:
            return
        if "refuses-all" in self._faults:
            self._call.send(immediate_response(429, (), b"no", "no"))
            return
        if self._mode == 2:
            self._call.send(mutate_request(ProcessingPhase.REQUEST_BODY, self._pick()))
            return
        body = self._body[:-1] + b" " if "cuts-bodies" in self._faults else self._body
        replies = [mutate_request(ProcessingPhase.REQUEST_HEADERS, self._pick())]
        pieces = [body[at : at + 60_000] for at in range(0, len(body), 60_000)]
        replies += [stream_body(ProcessingPhase.REQUEST_BODY, piece, ends=piece is pieces[-1]) for piece in pieces]
        self._call.send(*replies)

    def _pick(self):
        if "trusts-clients" in self._faults:
            return self._headers.get("x-gateway-destination-endpoint", self._pool[0])
        return self._pool[0]

    def closed(self):
        self._call.finish()

    def cancelled(self):
        pass


@asynccontextmanager
async def naive(pool, faults):
    server = H2Server({METHOD: lambda call: Naive(call, pool, faults)}, Settings())
    port = await server.start()
    try:
        yield PickerUnderTest(f"127.0.0.1:{port}", tls=False)
    finally:
        await server.stop(0.5)


def failures_of(faults, names):
    async def story():
        chosen = [case for case in CASES if case.name in names]
        async with Upstreams().serving(["127.0.0.1:0"] * 3) as upstreams, naive(upstreams.addresses, faults) as picker:
            return {finding.case.name async for finding in run_cases(picker, upstreams, chosen) if finding.why}

    return asyncio.run(story())


ROUTING = {
    *("destination-in-metadata", "destination-in-header", "clients-cannot-choose", "bodies-arrive-whole"),
    *("subset-as-a-list", "empty-subset-is-rejected", "subset-outside-the-pool-is-rejected", "load-is-spread"),
    *("malformed-body-is-rejected", "grpc-health", "streams-flow", "routing-headers-of-clients-are-removed"),
}
NAIVE = {
    *("subset-as-a-list", "empty-subset-is-rejected", "subset-outside-the-pool-is-rejected", "load-is-spread"),
    *("malformed-body-is-rejected", "grpc-health", "routing-headers-of-clients-are-removed"),
}


@pytest.mark.parametrize(
    ("faults", "tried", "found"),
    [
        pytest.param((), ROUTING, NAIVE, id="always the first of the pool", marks=pytest.mark.submission),
        pytest.param(("trusts-clients",), ROUTING - NAIVE, {"clients-cannot-choose"}, id="follows the client"),
        pytest.param(("cuts-bodies",), ROUTING - NAIVE, {"bodies-arrive-whole"}, id="changes bodies"),
    ],
)
def test_a_picker_that_breaks_rules_is_found_out_by_their_cases(faults, tried, found):
    assert failures_of(faults, tried) == found


def test_a_picker_that_refuses_everything_passes_nothing_that_needs_an_answer():
    needed = {"destination-in-metadata", "bodies-arrive-whole", "streams-flow", "concurrent-requests"}
    assert failures_of(("refuses-all",), needed) == needed


def test_a_target_that_is_not_there_fails_and_ends(capsys):
    words = ["--target", "127.0.0.1:1", "--plaintext", "--pool", "127.0.0.1:0,127.0.0.1:0"]
    assert main(["picker", "conformance", *words, "--case", "destination-in-metadata", "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(item["case"], item["verdict"]) for item in found] == [("destination-in-metadata", "failed")]


def test_cases_that_change_the_pool_are_skipped_where_the_kit_cannot(capsys):
    words = ["--target", "127.0.0.1:1", "--plaintext", "--pool", "127.0.0.1:0,127.0.0.1:0"]
    assert main(["picker", "conformance", *words, "--case", "pool-changes-are-followed"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 0 failed, 1 skipped"


def test_a_pool_in_a_file(tmp_path):
    """Written as our own file discovery reads it."""
    addresses = ["10.0.0.1:80", "10.0.0.1:81", "[2001:db8::1]:80"]
    path = tmp_path / "endpoints.yaml"
    pool = FilePool(path, addresses)

    def listed():
        found = read_endpoints(path.read_bytes(), "endpoints.yaml")
        assert not found.wrong
        return {name: [endpoint.address for endpoint in each] for name, each in found.entries.items()}

    before = listed()
    pool.replace([KitEndpoint(address) for address in addresses[1:]])
    assert [each for (each,) in before.values()] == addresses
    assert listed() == {name: each for name, each in before.items() if each != addresses[:1]}
    pool.replace([])
    assert listed() == {}


def test_cases_have_names_titles_and_reasons_of_their_own(capsys):
    assert main(["picker", "conformance", "--self", "--list", "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["case"] for each in listed] == [case.name for case in CASES]
    for word in ("case", "title", "why"):
        assert len({each[word] for each in listed}) == len(CASES)
    assert all(each["why"] != each["title"] and each["why"].endswith(".") for each in listed)
    assert main(["picker", "conformance", "--self", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 * len(CASES)
    assert main(["picker", "conformance", "--self", "--case", "nonsense"]) == 1
    assert "no case nonsense" in capsys.readouterr().err


CONFIG = """\
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins: [{type: active-request-scorer}, {type: queue-scorer}]
"""
STARTED = ["unready-pods-are-not-picked", "ports-of-a-pod-are-endpoints", "responses-in-flight-end-whole"]


@pytest.mark.submission
def test_a_picker_that_the_kit_starts_over_its_own_api(tmp_path, capsys):
    """Our picker as a program, which knows the kit's pool by a kubeconfig alone."""
    (tmp_path / "config.yaml").write_text(CONFIG)
    port, kubeconfig = free_port(), tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "modelplane", "picker", "serve", "--pool", "kit/pool", "--host", "127.0.0.1"]
    command += ["--grpc-port", str(port), "--grpc-health-port", "0", "--metrics-port", "0", "--drain-timeout", "3s"]
    command += ["--config", str(tmp_path / "config.yaml")]
    words = ["--target", f"127.0.0.1:{port}", "--pool", ",".join(ADDRESSES), "--kubeconfig", str(kubeconfig)]
    words += ["--command", shlex.join(["env", f"KUBECONFIG={kubeconfig}", *command])]
    assert main(["picker", "conformance", *words, *(f"--case={each}" for each in STARTED)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{len(STARTED)} passed, 0 failed"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--self", "--command", "true"], "are for a --target"),
        (["--target", "127.0.0.1:1", "--command", "/nowhere"], "/nowhere: No such file or directory"),
        (["--target", "127.0.0.1:1", "--command", "false"], "false ended with 1 before it served"),
    ],
)
def test_what_cannot_be_tried_is_said(words, why, capsys):
    pool = ["--pool", "127.0.0.1:0,127.0.0.1:0"] if "--self" not in words else []
    assert main(["picker", "conformance", *words, *pool, "--case", "grpc-health"]) == 1
    assert why in capsys.readouterr().err
