"""The router calls replicas behind mutual TLS, with a certificate from files that are renewed."""

import asyncio
import ssl
import time
from datetime import timedelta

import aiohttp
import pytest
from aiohttp import web

from modelplane.compose.hop_certificates import hop_hostname
from modelplane.epp.transport.tls import issue_hop
from modelplane.router.catalog import ServiceCatalog
from modelplane.router.hop_folder import HopFolder
from modelplane.router.served_models import ServedModels
from tests.router.conftest import endpoint, plan

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def issued():
    return issue_hop(hop_hostname("east"), time.time(), timedelta(days=1))


@pytest.fixture
def folder(issued, tmp_path):
    (tmp_path / "clusters.pem").write_bytes(issued.authority)
    (tmp_path / "tls.crt").write_bytes(issued.client)
    (tmp_path / "tls.key").write_bytes(issued.client_key)
    return tmp_path


def test_it_is_read_when_it_changes_and_kept_while_it_cannot_be_read(folder):
    found = HopFolder(folder, folder)
    assert found.read() is not None
    assert found.read() is None
    (folder / "tls.key").write_bytes(b"half a key")
    assert found.read() is None
    (folder / "tls.key").unlink()
    assert found.read() is None


def test_without_a_certificate_there_is_nothing(tmp_path):
    assert HopFolder(tmp_path / "none", tmp_path).read() is None


def server_context(issued, folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (folder / "server.crt").write_bytes(issued.server)
    (folder / "server.key").write_bytes(issued.server_key)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.load_verify_locations(cadata=issued.authority.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize(("identified", "served"), [(True, ("engine", "legal")), (False, ())])
def test_a_replica_behind_mutual_tls_is_asked_for_its_models(issued, folder, identified, served):
    async def listed(_request):
        return web.json_response({"data": [{"id": "engine"}, {"id": "legal"}]})

    async def main():
        application = web.Application()
        application.router.add_get("/v1/models", listed)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0, ssl_context=server_context(issued, folder)).start()
        catalog = ServiceCatalog()
        here = {"address": HOST, "port": runner.addresses[0][1], "secure": True, "model": None}
        catalog.replace([plan([endpoint("a", **here)])])
        models = ServedModels(catalog, HopFolder(folder, folder).read() if identified else None)
        async with aiohttp.ClientSession() as session:
            await models.refresh(session, 100.0)
        await runner.cleanup()
        return catalog.endpoints["team/a"].served

    assert asyncio.run(main()) == served
