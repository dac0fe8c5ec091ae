"""Which address the API of a kubeconfig is called at, and which name it must prove. DNS: test_hostile_outbound."""

import asyncio
import base64
import datetime as dt
import ssl
from ipaddress import ip_address

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from modelplane.api.outbound import OutboundRule
from modelplane.kube import API_SERVERS, KubeClient, Unreachable, config_of


def issued(folder, *names):
    """A certificate that signs itself, for these names."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "both.pem").write_bytes(pem + secret)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "both.pem")
    return context, base64.b64encode(pem).decode()


def kubeconfig(host, port, authority):
    return f"""
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "https://{host}:{port}", certificate-authority-data: {authority}}}}}]
users: [{{name: u, user: {{token: t}}}}]
"""


async def answers(tls, authority, host, rule):
    """What the API says at a host: its version and the Host header that it saw."""
    seen = []

    async def version(request):
        seen.append(request.host.partition(":")[0])
        return web.json_response({"gitVersion": "v1.35.1"})

    application = web.Application()
    application.router.add_get("/version", version)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    client = KubeClient(config_of(kubeconfig(host, runner.addresses[0][1], authority), "test"), outbound=rule)
    try:
        return await client.version(), seen
    except Unreachable as error:
        return str(error), seen
    finally:
        await client.close()
        await runner.cleanup()


LOCALHOST, NUMBER = x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))
NOTHING = OutboundRule()


@pytest.mark.parametrize(
    ("names", "host", "rule", "expected"),
    [
        pytest.param([LOCALHOST], "localhost", API_SERVERS, ("v1.35.1", ["localhost"]), id="its name is proved"),
        pytest.param([NUMBER], "127.0.0.1", API_SERVERS, ("v1.35.1", ["127.0.0.1"]), id="its address is proved"),
        pytest.param([NUMBER], "localhost", API_SERVERS, "Hostname mismatch", id="an address proves no name"),
        pytest.param([LOCALHOST], "127.0.0.1", API_SERVERS, "IP address mismatch", id="a name proves no address"),
        pytest.param([NUMBER], "127.0.0.1", NOTHING, "127.0.0.1, a loopback address", id="a refused address"),
        pytest.param([LOCALHOST], "localhost", NOTHING, "the outbound rule refuses localhost", id="a refused name"),
        pytest.param([LOCALHOST], "x.invalid", API_SERVERS, "x.invalid does not resolve", id="no address"),
    ],
)
def test_an_api_is_called_at_a_checked_address_and_proves_its_name(tmp_path, names, host, rule, expected):
    tls, authority = issued(tmp_path, *names)
    found, seen = asyncio.run(answers(tls, authority, host, rule))
    if isinstance(expected, tuple):
        assert (found, seen) == expected
    else:
        assert (expected in found, seen) == (True, []), found
