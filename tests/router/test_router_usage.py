import json

from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.router.usage import INPUT_PRICE, OUTPUT_PRICE, UsageLog, UsageRecord, cost_of
from tests.router.conftest import endpoint, plan


def record(**more):
    given = {"time": "t", "request_id": "r", "caller": 'a"b', "service": "team/chat", "endpoint": "team/a"}
    return UsageRecord(**(given | {"status": 200, "duration_ms": 1.5} | more))


def test_prices_are_the_endpoints_before_the_services():
    service = plan([], labels={INPUT_PRICE: "1", OUTPUT_PRICE: "10"})
    usage = ResponseUsage(1_000_000, 100_000)
    assert cost_of(usage, service, endpoint("a")) == 2.0
    assert cost_of(usage, service, endpoint("a", labels={INPUT_PRICE: "3", OUTPUT_PRICE: "cheap"})) == 4.0
    assert cost_of(ResponseUsage(), service, endpoint("a")) == 0.0


def test_records_are_lines_and_totals():
    lines = []
    log = UsageLog(lines.append)
    log.add(record(input_tokens=5, output_tokens=2, cost=0.5))
    log.add(record(input_tokens=5, output_tokens=-1))
    assert json.loads(lines[0])["inputTokens"] == 5
    assert [line for line in log.lines() if not line.startswith("#")] == [
        'modelplane_router_requests_total{caller="a\\"b",service="team/chat",status="200"} 2',
        'modelplane_router_input_tokens_total{caller="a\\"b",service="team/chat"} 10',
        'modelplane_router_output_tokens_total{caller="a\\"b",service="team/chat"} 2',
        'modelplane_router_cost_total{caller="a\\"b",service="team/chat"} 0.5',
    ]


def test_the_number_of_series_is_bounded():
    log = UsageLog()
    for number in range(5000):
        log.add(record(caller=str(number)))
    found = [line for line in log.lines() if not line.startswith("#")]
    assert len(found) == 2001
    assert 'modelplane_router_requests_total{caller="other",service="other",status="200"} 3000' in found
