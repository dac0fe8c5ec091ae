"""Usage records in a file, and what callers spent before the router started."""

import msgspec

from modelplane.compose.caller_document import Caller, CallerDocument
from modelplane.router.callers import Callers
from modelplane.router.usage import UsageRecord
from modelplane.router.usage_file import UsageFile


def line(caller, cost, month="2026-11"):
    record = UsageRecord(f"{month}-01T00:00:00Z", "r", caller, "chat/helper", "chat/a", 200, 1.0, cost=cost)
    return msgspec.json.encode(record) + b"\n"


def test_a_full_file_is_set_aside_and_both_are_read(tmp_path):
    file = UsageFile(tmp_path / "usage" / "fleet.jsonl", largest=2 * len(line("ada", 1.0)))
    for cost in (1.0, 2.0, 3.0):
        file.write(line("ada", cost))
    file.write(b'{"time": "20')
    file.close()
    again = UsageFile(tmp_path / "usage" / "fleet.jsonl")
    assert list(again.spent()) == [("ada", "2026-11", 1.0), ("ada", "2026-11", 2.0), ("ada", "2026-11", 3.0)]
    assert [path.name for path in sorted(again.path.parent.iterdir())] == ["fleet.jsonl", "fleet.jsonl.1"]
    again.close()


def test_a_budget_survives_a_restart():
    ada = Caller("ada", budget=6.0)
    callers = Callers(CallerDocument((ada,), checks_keys=False))
    callers.restore([("ada", "2026-10", 50.0), ("ada", "2026-11", 3.0), ("ada", "2026-11", 2.0)])
    assert callers.admit(ada, "chat/helper", "2026-11", 0.0) is None
    callers.used(ada, 10, 1.0, "2026-11", 1.0)
    assert callers.spent(ada, "2026-11") == 6.0
    refused = callers.admit(ada, "chat/helper", "2026-11", 2.0)
    assert refused.why == "ada spent its budget of 6 for 2026-11"
    assert callers.admit(ada, "chat/helper", "2026-12", 3.0) is None
