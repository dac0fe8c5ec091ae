from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.testing.picking import context_of, endpoints_with, make


def test_a_scorer_sees_metrics_that_were_replaced():
    pool = endpoints_with([EndpointMetrics(waiting=1), EndpointMetrics(waiting=3)])
    scorer = make("queue-scorer")
    before = scorer.score(context_of(pool), pool)
    pool[0].metrics = EndpointMetrics(waiting=9)
    assert (list(before), list(scorer.score(context_of(pool), pool))) == ([1.0, 0.0], [0.0, 1.0])
