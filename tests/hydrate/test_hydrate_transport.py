"""The client between the loader and the world: addresses, certificates, proxies and redirects."""

import datetime as dt
import socket
import socketserver
import ssl
import threading
from contextlib import contextmanager
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from modelplane.api.outbound import OutboundRule
from modelplane.hydrate.errors import HydrateError, TryAgainError
from modelplane.hydrate.transport import TransferTimeouts, WebClient, retry_after_s, shown

LOOPBACK = OutboundRule.read(["127.0.0.1/32"])


@pytest.fixture
def client():
    found = WebClient(LOOPBACK, TransferTimeouts(connect_s=2, read_s=2))
    yield found
    found.abort()


def resolving(monkeypatch, *answers):
    """Names resolve to these addresses, one after the other; the rest is the system's."""
    real, left = socket.getaddrinfo, list(answers)

    def resolve(host, port, *more, **named):
        if host != "models.example.com":
            return real(host, port, *more, **named)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (left.pop(0), port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def test_a_name_that_resolves_to_an_internal_address_is_refused(server, monkeypatch):
    resolving(monkeypatch, "127.0.0.1")
    url = server.add("/x", b"1").replace("127.0.0.1", "models.example.com")
    with pytest.raises(HydrateError, match=r"models.example.com resolves to 127.0.0.1, a loopback address"):
        WebClient(OutboundRule()).get(url)
    assert server.requests == []


def test_a_name_is_resolved_once_and_its_address_pinned(client, server, monkeypatch):
    """A second answer would be the attacker's: it is never asked for."""
    resolving(monkeypatch, "127.0.0.1")
    url = server.add("/x", b"1").replace("127.0.0.1", "models.example.com")
    assert client.get(url).small() == b"1"
    assert server.requests[0][2]["Host"].startswith("models.example.com:")


def test_a_redirect_is_checked_too(client, server):
    server.add("/x", b"", redirect="http://169.254.169.254/latest/meta-data")
    with pytest.raises(HydrateError, match=r"refuses 169.254.169.254: 169.254.169.254, a metadata service address"):
        client.get(f"{server.url}/x")


def test_a_key_in_a_header_of_its_own_does_not_go_along_to_another_origin(client, server, monkeypatch):
    resolving(monkeypatch, "127.0.0.1")
    elsewhere = server.add("/y", b"1").replace("127.0.0.1", "models.example.com")
    server.add("/x", b"", redirect=elsewhere)
    headers = {"x-vendor-key": "k", "x-api-key": "k", "accept": "*/*"}
    client.get(f"{server.url}/x", headers, secret="X-Vendor-Key").small()
    sent = [{name.lower() for name in each[2]} & headers.keys() for each in server.requests]
    assert sent == [{"x-vendor-key", "x-api-key", "accept"}, {"accept"}]


def test_redirects_end(client, server):
    server.add("/x", b"", redirect="/x")
    with pytest.raises(HydrateError, match="redirects more than 8 times"):
        client.get(f"{server.url}/x")


def test_connections_are_used_again(client, server):
    url = server.add("/x", b"1")
    seen = set()
    answer = server.answer
    server.answer = lambda handler: (seen.add(handler.client_address), answer(handler))
    assert [client.get(url).small() for _ in range(3)] == [b"1"] * 3
    assert len(seen) == 1


def test_a_connection_is_given_back_once(client, server):
    """An error's body is read and the answer closed: the connection was idle twice then, and two threads had it."""
    url, gone = server.add("/x", b"1"), f"{server.url}/gone"
    seen = []
    answer = server.answer
    server.answer = lambda handler: (seen.append(handler.client_address), answer(handler))
    with pytest.raises(HydrateError, match="404"):
        client.get(gone)
    both = [client.get(url), client.get(url)]
    assert [each.small() for each in both] == [b"1", b"1"]
    assert seen[0] == seen[1] != seen[2]


def test_a_server_that_is_not_there_is_for_now(client):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(TryAgainError, match="Connection refused"):
        client.get(f"http://127.0.0.1:{port}/")


@contextmanager
def proxying():
    """A proxy that notes what it is asked, and connects."""
    asked = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            line = self.rfile.readline().decode()
            headers = []
            while (header := self.rfile.readline()) not in {b"\r\n", b""}:
                headers.append(header)
            asked.append(
                (line.split()[:2], any(each.startswith(b"Proxy-Authorization: Basic dTpw") for each in headers))
            )
            method, target, _ = line.split()
            place = target if method == "CONNECT" else target.split("/")[2]
            host, port = place.split(":")
            with socket.create_connection((host, int(port))) as upstream:
                if method == "CONNECT":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                    threading.Thread(target=self._pump, args=(self.connection, upstream), daemon=True).start()
                else:
                    path = "/" + target.split("/", 3)[3]
                    upstream.sendall(
                        f"GET {path} HTTP/1.1\r\nConnection: close\r\n".encode() + b"".join(headers) + b"\r\n"
                    )
                self._pump(upstream, self.connection)

        def _pump(self, source, target):
            try:
                while data := source.recv(65536):
                    target.sendall(data)
            except OSError:
                return

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://u:p@127.0.0.1:{running.server_address[1]}", asked
        running.shutdown()


def test_a_proxy_of_the_environment_is_used(client, server, monkeypatch):
    url = server.add("/x", b"1")
    with proxying() as (proxy, asked):
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
        assert client.get(url).small() == b"1"
        assert asked == [(["GET", url], True)]
        with pytest.raises(HydrateError, match=r"refuses 10.0.0.1"):
            client.get("http://10.0.0.1/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        client.abort()
        assert client.get(url).small() == b"1"
        assert len(asked) == 1


@pytest.fixture
def certificate(tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "both.pem").write_bytes(pem + private)
    (tmp_path / "ca.pem").write_bytes(pem)
    return tmp_path


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_certificates_of_the_environment_are_trusted(server, certificate, monkeypatch, variable):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "both.pem")
    server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
    url = server.add("/x", b"1").replace("http:", "https:")
    strict = WebClient(LOOPBACK)
    with pytest.raises(HydrateError, match="self-signed certificate"):
        strict.get(url)
    monkeypatch.setenv(variable, str(certificate / "ca.pem"))
    trusting = WebClient(LOOPBACK)
    assert trusting.get(url).small() == b"1"
    trusting.abort()
    with proxying() as (proxy, asked):
        monkeypatch.setenv("https_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
        through = WebClient(LOOPBACK)
        assert through.get(url).small() == b"1"
        through.abort()
        assert asked == [(["CONNECT", url.split("/")[2]], True)]


def test_messages_have_no_secrets():
    assert shown("https://user:pass@h.example/a/b?X-Amz-Signature=1#f") == "https://h.example/a/b"


@pytest.mark.parametrize(
    ("value", "seconds"), [(None, None), ("3", 3.0), ("99999", 300.0), ("-1", None), ("Wed, 21 Oct", None)]
)
def test_retry_after(value, seconds):
    assert retry_after_s(value) == seconds
