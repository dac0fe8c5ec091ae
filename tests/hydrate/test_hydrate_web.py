"""URLs on a server that misbehaves: every fault ends in the right bytes or in the right refusal."""

import dataclasses
import hashlib

import pytest

from modelplane.hydrate import HydrationOptions
from modelplane.hydrate.credentials import MountedSecret
from modelplane.hydrate.errors import HydrateError, OutOfSpaceError, SourceChangedError, TryAgainError
from modelplane.hydrate.settings import RetryPolicy
from modelplane.hydrate.transport import StatusError
from tests.hydrate.conftest import QUICK
from tests.support.file_server import Faults, file_server

CONTENT = hashlib.shake_128(b"weights").digest(3_500_000)
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


def http(url, **more):
    return {"http": {"url": url, **more}}


@pytest.mark.parametrize(
    "faults",
    [
        {},
        {"statuses": [(503, {}), (429, {"Retry-After": "0"}), (500, {}), (408, {})]},
        {"drop_after": [0, 1, 70_000, 200_000, 0, 999]},
        {"stall_s": [0.8, 0.8]},
        {"short_by": [0, 1000, 1]},
        {"corrupt": 1},
        {"drop_after": [300_000], "stall_s": [0.7], "corrupt": 1},
    ],
    ids=["none", "statuses", "drops", "stalls", "short", "corrupt", "all"],
)
def test_faults_end_in_the_right_bytes(stage, server, faults):
    url = server.add("/model.bin", CONTENT)
    server.faults = Faults(**faults)
    marker = stage(http(url, digest=DIGEST))
    assert stage.files() == {"model.bin": CONTENT}
    assert [(file.path, file.size, f"sha256:{file.sha256}") for file in marker.files] == [
        ("model.bin", len(CONTENT), DIGEST)
    ]


def test_a_drop_costs_nothing_that_was_received(stage, server):
    url = server.add("/model.bin", CONTENT)
    server.faults = Faults(drop_after=[100_000, 200_000, 150_000])
    stage(http(url))
    assert stage.fetched == len(CONTENT)


@pytest.mark.parametrize(
    "served", [{"ranged": False}, {"chunked": True, "ranged": False}], ids=["no ranges", "no length"]
)
def test_servers_without_ranges_are_asked_by_one_connection(stage, server, served):
    url = server.add("/model.bin", CONTENT, **served)
    server.faults = Faults(drop_after=[500_000, 600_000])
    stage(http(url))
    assert stage.files() == {"model.bin": CONTENT}
    assert len(server.requests) == 3, "the size, a drop, and the rest"


def test_a_wrong_digest_is_for_good(stage, server):
    url = server.add("/model.bin", CONTENT)
    with pytest.raises(HydrateError, match=r"model.bin has the digest sha256:.*, and sha256:0{64} was listed"):
        stage(http(url, digest=f"sha256:{'0' * 64}"))
    assert not (stage.root / ".modelplane" / "complete.json").exists()
    assert not (stage.root / "revisions").exists()


@pytest.mark.parametrize(("status", "kind"), [(404, StatusError), (403, StatusError), (503, TryAgainError)])
def test_a_refusal_is_for_good_or_for_now(stage, server, status, kind):
    server.faults = Faults(statuses=[(status, {})] * 9)
    with pytest.raises(kind, match=f"answered {status}"):
        stage(http(f"{server.url}/x"))


def test_lines_say_what_is_tried_again(stage, server):
    url = server.add("/model.bin", b"weights")
    server.faults = Faults(statuses=[(503, {})] * 3)
    slow = dataclasses.replace(QUICK, retry=RetryPolicy(first_s=0.4, longest_s=0.4, attempts=9))
    stage(http(url), options=HydrationOptions(fetch=slow, progress_interval_s=0.02))
    said = {(line.get("reason"), line.get("message")) for line in stage.lines if line["phase"] == "Resolving"}
    assert ("SourceUnreachable", f"{url} answered 503 Service Unavailable") in said
    assert "reason" not in stage.lines[-1]


def test_a_file_that_changes_is_resolved_again(stage, server):
    url = server.add("/model.bin", CONTENT)
    other = CONTENT[::-1]
    answer = server.answer

    def change(handler):
        if len(server.requests) == 3:
            server.add("/model.bin", other)
        answer(handler)

    server.answer = change
    stage(http(url))
    assert stage.files() == {"model.bin": other}


def test_a_file_that_never_stays_the_same_is_for_now(stage, server):
    url = server.add("/model.bin", CONTENT)
    answer = server.answer

    def change(handler):
        server.files["/model.bin"].tag = f'"{len(server.requests)}"'
        answer(handler)

    server.answer = change
    with pytest.raises(SourceChangedError, match="changed at the source"):
        stage(http(url))


def test_the_volume_is_checked_for_space_first(stage, server):
    class Endless(bytes):
        def __len__(self):
            return 1 << 60

    url = server.add("/model.bin", b"x")
    server.files["/model.bin"].content = Endless(b"x")
    with pytest.raises(OutOfSpaceError, match="needs 1152921504606846976 more bytes, and the volume has"):
        stage(http(url))
    assert server.sent <= 1


def test_the_header_of_a_secret_stays_with_its_host(stage, server, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("Basic abc\n")
    with file_server() as storage:
        server.add("/model.bin", b"", redirect=storage.add("/elsewhere", CONTENT))
        source = http(f"{server.url}/model.bin", authSecretRef={"name": "s", "key": "key"})
        stage(source, secret=MountedSecret(tmp_path / "secret"))
        assert {headers.get("Authorization") for _, _, headers in server.requests} == {"Basic abc"}
        assert {headers.get("Authorization") for _, _, headers in storage.requests} == {None}


def test_many_urls_become_many_files(stage, server):
    urls = [{"url": server.add(f"/{name}", name.encode()), "path": f"folder/{name}"} for name in "abc"]
    stage({"http": {"urls": urls}})
    assert stage.files() == {f"folder/{name}": name.encode() for name in "abc"}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"http": {}}, "http needs url or urls"),
        ({"http": {"url": "http://u:p@127.0.0.1/x"}}, "not an http or https URL without credentials"),
        ({"http": {"url": "ftp://127.0.0.1/x"}}, "not an http or https URL"),
        ({"http": {"url": "http://127.0.0.1:1/x", "digest": "md5:0"}}, "not a SHA-256 digest"),
        ({"http": {"url": "http://127.0.0.1:1/x", "header": "a b"}}, "not the name of a header"),
        ({"http": {"url": "http://169.254.169.254/x"}}, "the outbound rule refuses 169.254.169.254"),
        ({"http": {"url": "http://localhost/x"}}, "the outbound rule refuses localhost"),
    ],
)
def test_bad_sources_are_refused(stage, source, says):
    with pytest.raises(HydrateError, match=says):
        stage(source)
