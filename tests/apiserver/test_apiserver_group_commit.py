"""A write is acknowledged when the disk has it."""

import asyncio
import threading
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from modelplane.api.errors import UnavailableError
from modelplane.apiserver.app import ApiServer
from modelplane.apiserver.group_commit import GroupCommit
from modelplane.apiserver.lifecycle import ensure_namespaces
from modelplane.apiserver.store import database as databases
from modelplane.apiserver.store.database import Database
from modelplane.reconcile.clock import SystemClock
from tests.support.waiting import until

TOKEN = "a-token"
PATH = "/api/v1/namespaces/default/configmaps"


class Disk:
    """The file's sync, which tests hold up, count and break."""

    def __init__(self, database):
        self._sync = database._file.sync
        self.free = threading.Event()
        self.free.set()
        self.syncs = 0
        self.broken = False
        database._file.sync = self

    def __call__(self):
        self.syncs += 1
        self.free.wait(60)
        if self.broken:
            raise UnavailableError("plane.db-wal cannot be written: Input/output error")
        self._sync()


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


@asynccontextmanager
async def api(tmp_path):
    clock = SystemClock()
    with Database(tmp_path / "plane.db", clock=clock) as database:
        store = database.store("plane")
        ensure_namespaces(store)
        server = ApiServer(store, token=TOKEN, clock=clock)
        await server.runner.setup()
        await web.TCPSite(server.runner, "127.0.0.1", 0).start()
        host, port = server.runner.addresses[0][:2]
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(f"http://{host}:{port}", headers=headers) as session:
            yield session, database, Disk(database)
        await server.close()


async def create(session, name):
    async with session.post(PATH, json=config_map(name)) as response:
        return response.status, await response.json()


def test_no_write_is_acknowledged_before_the_disk_has_it(tmp_path):
    async def story():
        async with api(tmp_path) as (session, _, disk):
            disk.free.clear()
            writing = asyncio.create_task(create(session, "one"))
            async with session.get(f"{PATH}/none") as response:
                assert response.status == 404, "reads go on"
            await asyncio.wait([writing], timeout=0.2)
            assert not writing.done()
            disk.free.set()
            assert (await writing)[0] == 201

    asyncio.run(story())


def test_writes_that_wait_share_one_sync(tmp_path):
    async def story():
        async with api(tmp_path) as (session, database, disk):
            disk.free.clear()
            writing = [asyncio.create_task(create(session, f"one-{number}")) for number in range(40)]
            await until(lambda: len(database.store("plane").list("", "ConfigMap")) == 40)
            disk.free.set()
            assert {status for status, _ in await asyncio.gather(*writing)} == {201}
            assert disk.syncs <= 3

    asyncio.run(story())


def test_a_write_that_the_disk_refuses_is_not_acknowledged_and_the_next_one_can_be(tmp_path):
    async def story():
        async with api(tmp_path) as (session, _, disk):
            disk.broken = True
            status, body = await create(session, "one")
            assert (status, body["reason"]) == (503, "ServiceUnavailable")
            assert body["message"] == "plane.db-wal cannot be written: Input/output error"
            disk.broken = False
            assert (await create(session, "two"))[0] == 201

    asyncio.run(story())


def test_what_changed_nothing_waits_for_no_disk(tmp_path):
    async def story():
        with Database(tmp_path / "plane.db", clock=SystemClock()) as database:
            disk, commits = Disk(database), GroupCommit(database)
            await commits.flush()
            assert disk.syncs == 0
            database.store("plane").create(config_map("one"))
            await commits.flush()
            await commits.flush()
            assert disk.syncs == 1

    asyncio.run(story())


async def ready(session):
    async with session.get("/readyz") as response:
        return response.status, await response.text()


def test_readyz_reports_a_full_disk_and_healthz_does_not(tmp_path, monkeypatch):
    async def story():
        async with api(tmp_path) as (session, _, _):
            assert await ready(session) == (200, "ok")
            monkeypatch.setattr(databases, "MIN_FREE_BYTES", 1 << 62)
            status, text = await ready(session)
            assert status == 503
            assert text.startswith("[-]store failed: the disk of the store has ")
            assert text.endswith("bytes left; 4611686018427387904 are needed\nreadyz check failed\n")
            async with session.get("/healthz") as response:
                assert response.status == 200

    asyncio.run(story())


def test_readyz_reports_a_write_that_failed_until_one_succeeds(tmp_path):
    async def story():
        async with api(tmp_path) as (session, database, _):
            run = database._file._connection.execute
            run(f"PRAGMA max_page_count = {run('PRAGMA page_count').fetchone()[0]}")
            huge = config_map("huge") | {"data": {"text": "x" * 500_000}}
            async with session.post(PATH, json=huge) as response:
                assert response.status == 503
            status, text = await ready(session)
            assert (status, "database or disk is full" in text) == (503, True)
            run("PRAGMA max_page_count = 1000000")
            assert (await create(session, "small"))[0] == 201
            assert await ready(session) == (200, "ok")

    asyncio.run(story())


def test_a_database_in_memory_has_nothing_to_wait_for():
    async def story():
        with Database(None, clock=SystemClock()) as database:
            database.store("plane").create(config_map("one"))
            await GroupCommit(database).flush()
            assert (database.commits, database.problem(), database.lost) == (0, "", None)

    asyncio.run(story())
