import json
import os

from modelplane.compose.caller_document import Caller, CallerDocument
from modelplane.compose.service_plan import plan_document
from modelplane.router.plans import PlanFolder
from tests.router.conftest import endpoint, plan


def write(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    stamp = path.stat().st_mtime_ns + write.calls * 1_000_000
    write.calls += 1
    os.utime(path, ns=(stamp, stamp))


write.calls = 1


def test_plans_are_read_when_they_change(tmp_path):
    folder, first = PlanFolder(tmp_path), plan([endpoint("a")])
    assert folder.read() == ()
    write(tmp_path, "chat.json", plan_document(first))
    assert folder.read() == (first,)
    assert folder.read() is None
    second = plan([endpoint("a"), endpoint("b")])
    write(tmp_path, "chat.json", plan_document(second))
    assert folder.read() == (second,)


def test_a_document_that_cannot_be_read_keeps_the_plan_before_it(tmp_path, caplog):
    folder, first = PlanFolder(tmp_path), plan([endpoint("a")])
    write(tmp_path, "chat.json", plan_document(first))
    folder.read()
    write(tmp_path, "chat.json", b"{")
    assert folder.read() is None
    assert folder.read() is None
    assert [record.message for record in caplog.records if "kept the previous plan" in record.message] != []
    assert len(caplog.records) == 1
    write(tmp_path, "other.json", json.dumps({"version": 9, "plan": {}}).encode())
    assert folder.read() is None


def test_a_service_that_is_gone_goes_but_not_all_at_once(tmp_path):
    folder = PlanFolder(tmp_path)
    one, two = plan([endpoint("a")]), plan([endpoint("a")], name="two")
    write(tmp_path, "one.json", plan_document(one))
    write(tmp_path, "two.json", plan_document(two))
    assert folder.read() == (one, two)
    (tmp_path / "two.json").unlink()
    assert folder.read() == (one,)
    (tmp_path / "one.json").unlink()
    assert [folder.read(), folder.read(), folder.read()] == [None, None, ()]


def test_callers_are_read_when_they_change(tmp_path):
    folder = PlanFolder(tmp_path)
    assert folder.read_callers() is None
    write(tmp_path, "callers.json", b'{"callers": [{"name": "ada", "requestsPerMinute": 3}], "checksKeys": false}')
    assert folder.read_callers() == CallerDocument((Caller("ada", requests_per_minute=3),), checks_keys=False)
    assert folder.read_callers() is None
    write(tmp_path, "callers.json", b'{"callers": 3}')
    assert folder.read_callers() is None
    assert folder.read() == ()
