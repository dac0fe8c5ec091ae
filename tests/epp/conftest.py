"""Both servers, with a handler whose behaviour the messages of a call select."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from modelplane.epp.transport.calls import GrpcStatus
from modelplane.epp.transport.grpc_aio import GrpcAioServer
from modelplane.epp.transport.h2.server import H2Server
from modelplane.epp.transport.loop import make_loop
from modelplane.epp.transport.tls import ServerIdentity, self_signed

ECHO = "/test.Echo/Talk"


class Echo:
    """Echoes messages; some messages select other behaviour."""

    def __init__(self, call, log):
        self.call = call
        self.log = log
        log.append("opened")

    def message(self, message):
        if message == b"fail":
            raise RuntimeError("asked to fail")
        if message == b"refuse":
            self.call.finish(GrpcStatus.RESOURCE_EXHAUSTED, "no room: 100 % full\n")
        elif message == b"end":
            self.call.send(b"last")
            self.call.finish()
        elif message == b"thrice":
            self.call.send(b"one", b"two", b"three")
        elif message == b"later":
            asyncio.get_running_loop().call_later(0.01, self.call.send, b"waited")
        elif message.startswith(b"many "):
            self.call.send(*([b"x" * 1000] * int(message[5:])))
        elif message == b"rest":
            self.call.send(message)
            self.call.mark_idle()
        elif message != b"silent":
            self.call.send(message)

    def closed(self):
        self.log.append("closed")
        self.call.finish()

    def cancelled(self):
        self.log.append("cancelled")


@pytest.fixture
def log():
    return []


@pytest.fixture
def methods(log):
    return {ECHO: lambda call: Echo(call, log)}


@pytest.fixture(params=["own", "grpc.aio"])
def make_server(request):
    """Of both kinds: what a test says of one holds for the other."""
    return {"own": H2Server, "grpc.aio": GrpcAioServer}[request.param]


@pytest.fixture
def identity():
    return self_signed(time.time())


@pytest.fixture
def client_identity():
    """A certificate that says it is a client's, and is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "proxy")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return ServerIdentity(made.public_bytes(encoding), private)


@pytest.fixture
def run():
    """Runs a coroutine to its end within a generous time, on the loop that the picker is served with."""

    async def limited(scenario):
        async with asyncio.timeout(50):
            return await scenario

    def run_on_its_loop(scenario):
        with asyncio.Runner(loop_factory=make_loop) as runner:
            return runner.run(limited(scenario))

    return run_on_its_loop
