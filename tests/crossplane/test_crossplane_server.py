"""The server over real gRPC, with certificates as Crossplane has them."""

import asyncio
import base64
import datetime as dt
import ipaddress
import logging
import urllib.request
from functools import partial

import grpc
import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from modelplane.crossplane import messages
from modelplane.crossplane import server as server_module
from modelplane.crossplane.server import CannotStartError, FunctionServer, Options, ServerLimits
from modelplane.crossplane.structs import StructCodec
from modelplane.reconcile.clock import SystemClock
from modelplane.router.provider_lists import ProviderLists
from tests.support.model_provider import KEY, ModelProvider
from tests.support.waiting import until

API = "modelplane.ai/v1alpha1"
STRUCTS = StructCodec(2**20)
GATEWAY = {
    "apiVersion": API,
    "kind": "InferenceGateway",
    "metadata": {"name": "default", "uid": "g1"},
    "spec": {"backend": "EnvoyGateway", "router": {"replicas": 0}},
}


def request_for(composite, **required):
    made = fnv1.RunFunctionRequest(meta=fnv1.RequestMeta(tag="t1"))
    STRUCTS.encode_into(made.observed.composite.resource, composite)
    for name, items in required.items():
        made.required_resources[name].SetInParent()
        for item in items:
            STRUCTS.encode_into(made.required_resources[name].items.add().resource, item)
    return made


async def served(work, *, certificates=None, limits=None, log_calls=False, list_models=None):
    """Runs `work` with an address while a server is up."""
    options = Options(
        "127.0.0.1:0",
        certificates,
        "127.0.0.1:0",
        limits or ServerLimits(),
        log_calls=log_calls,
        list_models=list_models,
    )
    server = FunctionServer(options)
    await server.start()
    try:
        return await work(server)
    finally:
        await server.stop()


async def call(channel, request):
    return await grpcv1.FunctionRunnerServiceStub(channel).RunFunction(request, timeout=30)


def over(request, **options):
    async def work(server):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            return await call(channel, request)

    return served(work, **options)


def test_a_call_is_answered_whole(run):
    request = request_for(GATEWAY)
    request.desired.resources["from-before"].resource.update({"kind": "ConfigMap"})
    request.context.update({"seen": "yes"})
    response = run(over(request))
    assert response.meta.tag == "t1"
    assert response.meta.ttl.seconds == 300
    assert set(response.desired.resources) == {"from-before", "gateway"}
    gateway = STRUCTS.decode(response.desired.resources["gateway"].resource)
    assert gateway["kind"] == "Gateway"
    assert gateway["spec"]["listeners"][0]["port"] == 80
    assert response.desired.resources["gateway"].ready == fnv1.READY_FALSE
    assert response.desired.composite.ready == fnv1.READY_FALSE
    assert [(c.type, c.status, c.reason) for c in response.conditions] == [
        ("GatewayReady", fnv1.STATUS_CONDITION_FALSE, "WaitingForGateway")
    ]
    assert dict(response.context) == {"seen": "yes"}
    assert list(response.results) == []


def test_calls_are_held_until_the_server_is_ready_for_them(run):
    async def work(server):
        ready = asyncio.Event()
        server.function.waits_for(ready.wait)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            held = asyncio.create_task(call(channel, request_for(GATEWAY)))
            done, _ = await asyncio.wait([held], timeout=0.3)
            ready.set()
            return bool(done), await held

    early, response = run(served(work))
    assert not early
    assert set(response.desired.resources) == {"gateway"}


def test_what_was_required_and_is_not_there_is_told_apart_from_what_was_not_fetched(run):
    cluster = {
        "apiVersion": API,
        "kind": "InferenceCluster",
        "metadata": {"name": "east"},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "k"}}},
            "nodePools": [{"name": "p", "className": "h200", "nodeCount": 1}],
        },
    }
    waiting = run(over(request_for(cluster)))
    missing = run(over(request_for(cluster, **{"class-h200": [], "replicas": []})))
    reasons = [
        next(c.reason for c in response.conditions if c.type == "ClusterReady") for response in (waiting, missing)
    ]
    assert reasons == ["Unresolved", "ClassMissing"]
    assert waiting.requirements == missing.requirements
    wanted = waiting.requirements.resources["class-h200"]
    assert (wanted.api_version, wanted.kind, wanted.match_name) == (API, "InferenceClass", "h200")
    assert dict(waiting.requirements.resources["replicas"].match_labels.labels) == {"modelplane.ai/cluster": "east"}


def test_what_cannot_be_composed_applies_nothing_and_says_why(run):
    response = run(over(request_for({"apiVersion": API, "kind": "Unheard", "metadata": {"name": "x"}})))
    assert [result.severity for result in response.results] == [fnv1.SEVERITY_FATAL]
    assert "no composer for kind Unheard" in response.results[0].message


@pytest.mark.slow
def test_a_call_that_takes_too_long_is_given_up_while_others_are_answered(run, monkeypatch):
    real = messages.read
    release = asyncio.Event()
    slow = request_for({**GATEWAY, "metadata": {"name": "slow"}})

    async def work(server):
        loop = asyncio.get_running_loop()

        def read(request, structs):
            if request.observed.composite.resource["metadata"]["name"] == "slow":
                asyncio.run_coroutine_threadsafe(release.wait(), loop).result(30)
            return real(request, structs)

        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            await call(channel, request_for(GATEWAY))  # the first one is slower than all others
            monkeypatch.setattr("modelplane.crossplane.server.read", read)
            waiting = asyncio.ensure_future(call(channel, slow))
            answered = await call(channel, request_for(GATEWAY))
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await waiting
            release.set()
            return answered, raised.value

    answered, error = run(served(work, limits=ServerLimits(threads=2, call_s=2.5)))
    assert answered.meta.tag == "t1"
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_more_calls_than_may_wait_are_turned_away(run, monkeypatch):
    real = messages.read
    release = asyncio.Event()

    async def work(server):
        loop = asyncio.get_running_loop()

        def read(request, structs):
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(30)
            return real(request, structs)

        monkeypatch.setattr("modelplane.crossplane.server.read", read)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            calls = [asyncio.ensure_future(call(channel, request_for(GATEWAY))) for _ in range(5)]
            await until(lambda: sum(each.done() for each in calls) == 2)
            release.set()
            return await asyncio.gather(*calls, return_exceptions=True)

    found = run(served(work, limits=ServerLimits(threads=1, waiting=2)))
    refused = [item.code() for item in found if isinstance(item, grpc.aio.AioRpcError)]
    assert refused == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 2
    assert sum(isinstance(item, fnv1.RunFunctionResponse) for item in found) == 3


def test_a_defect_is_told_to_the_composite_and_the_server_goes_on(run, monkeypatch):
    def broken(_request, _structs):
        raise ZeroDivisionError("oh")

    with monkeypatch.context() as patched:
        patched.setattr("modelplane.crossplane.server.read", broken)
        response = run(over(request_for(GATEWAY)))
    assert [result.severity for result in response.results] == [fnv1.SEVERITY_FATAL]
    assert "ZeroDivisionError: oh" in response.results[0].message


def test_metrics_and_health(run):
    def page(url):
        with urllib.request.urlopen(url, timeout=30) as found:  # noqa: S310  loopback
            return found.status, found.read().decode()

    async def work(server):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            await call(channel, request_for(GATEWAY))
        base = f"http://127.0.0.1:{server.admin_port}"
        return [await asyncio.to_thread(page, base + path) for path in ("/healthz", "/readyz", "/metrics")]

    (healthy, _), (ready, _), (_, metrics) = run(served(work))
    assert (healthy, ready) == (200, 200)
    assert 'modelplane_function_calls_total{kind="InferenceGateway",outcome="composed"} 1.0' in metrics
    assert 'modelplane_function_seconds_count{kind="InferenceGateway"} 1.0' in metrics
    assert 'modelplane_function_work_seconds_count{kind="InferenceGateway"} 1.0' in metrics


def test_each_call_is_a_line_of_the_log_where_that_was_asked_for(run, caplog):
    deployment = {"apiVersion": API, "kind": "ModelDeployment", "metadata": {"name": "qwen", "namespace": "team"}}

    async def work(server):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            await call(channel, request_for(GATEWAY))
            await call(channel, request_for(deployment))

    with caplog.at_level(logging.INFO):
        run(served(work, log_calls=True))
    lines = [record.fields for record in caplog.records if record.message == "answered"]
    assert [(line["object"], line["reason"], line["outcome"]) for line in lines] == [
        ("InferenceGateway/default", "Answered", "composed"),
        ("ModelDeployment/team/qwen", "Answered", "refused"),
    ]
    assert all(line["request_bytes"] > 0 and line["work_ms"] >= 0 for line in lines)


@pytest.fixture(scope="module")
def authority():
    return _Authority()


def test_only_callers_with_a_certificate_of_the_authority_are_answered(run, tmp_path, authority):
    authority.write(tmp_path, "server")
    client = authority.issue("crossplane")
    stranger = _Authority().issue("stranger")

    async def work(server):
        address = f"127.0.0.1:{server.port}"
        outcomes = []
        for key, certificate in (client, stranger):
            credentials = grpc.ssl_channel_credentials(authority.certificate_pem, key, certificate)
            async with grpc.aio.secure_channel(address, credentials) as channel:
                try:
                    outcomes.append((await call(channel, request_for(GATEWAY))).meta.tag)
                except grpc.aio.AioRpcError as error:
                    outcomes.append(error.code())
        return outcomes

    assert run(served(work, certificates=tmp_path)) == ["t1", grpc.StatusCode.UNAVAILABLE]


def test_it_does_not_start_without_its_certificates(run, tmp_path):
    async def nothing(_server):
        return None

    with pytest.raises(CannotStartError, match=r"tls\.key: No such file"):
        run(served(nothing, certificates=tmp_path))


class _Authority:
    def __init__(self):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "crossplane-root-ca")])
        self._certificate = self._sign(self._name, self._key.public_key(), is_authority=True)
        self.certificate_pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def _sign(self, subject, public_key, *, is_authority=False):
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def issue(self, name):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key.public_key())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private, certificate.public_bytes(serialization.Encoding.PEM)

    def write(self, folder, name):
        key, certificate = self.issue(name)
        for file, content in (("tls.key", key), ("tls.crt", certificate), ("ca.crt", self.certificate_pem)):
            (folder / file).write_bytes(content)


def test_a_server_without_tls_warns_again_and_again(run, caplog, monkeypatch):
    monkeypatch.setattr(server_module, "_WARNING_S", 0.05)

    async def work(_server):
        await until(lambda: sum("serving without TLS" in record.message for record in caplog.records) >= 3)

    with caplog.at_level(logging.WARNING):
        run(served(work))


SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "acme-key", "namespace": "chat"},
    "data": {"apiKey": base64.b64encode(KEY.encode()).decode()},
}


def test_the_models_of_a_provider_are_listed_with_its_credential_and_no_call_waits(run, caplog):
    caplog.set_level(logging.DEBUG)
    lists = ProviderLists(SystemClock())

    async def work(server, provider):
        spec = {
            "origin": provider.origin,
            "model": "acme/large-3",
            "credential": {"method": "APIKey", "apiKey": {"secretRef": {"name": "acme-key"}}},
        }
        metadata = {"name": "acme", "namespace": "chat", "uid": "e1"}
        composite = {"apiVersion": API, "kind": "ModelEndpoint", "metadata": metadata, "spec": spec}
        allowing = {**GATEWAY, "spec": {"outbound": {"allow": ["localhost"]}}}
        request = request_for(composite, gateway=[allowing], secret=[SECRET])

        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            while True:
                response = await call(channel, request)
                status = STRUCTS.decode(response.desired.composite.resource).get("status", {})
                if "models" in status:
                    return status, response.meta.ttl.seconds
                assert response.meta.ttl.seconds == 1
                await asyncio.sleep(0.01)

    with ModelProvider() as provider:
        status, ttl_s = run(served(partial(work, provider=provider), list_models=lists))
        assert provider.requests == [("/v1/models", f"Bearer {KEY}")]
        names = ["acme/large-3", "acme/small-1"]
        assert status["models"] == {"url": f"{provider.origin}/v1/models", "total": 2, "names": names}
    lists.close()
    assert ttl_s == 30
    assert KEY not in str(status)
    assert KEY not in caplog.text
