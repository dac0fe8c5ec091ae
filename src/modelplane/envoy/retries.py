"""Which requests Envoy retries, and where.

Only requests that no engine received are retried: a generation must not run twice. Those are refused connections, and
responses of another gateway with `UNSERVED_HEADER`.

Each try goes to a member that was not tried, and there are enough tries to reach the last member. `previous_hosts`
alone is not enough: LEAST_REQUEST draws two members and takes the one with fewer active requests, and the members of a
failed cluster have the fewest, because they fail at once; with three draws for a try, most tries would find them again.
So a try draws until an untried member is nearly certain. A draw costs a fraction of a microsecond, and only after a
failure.

With different weights ROUND_ROBIN is used (see `clusters`), which reaches the member with the least weight once in
every round.

Not certain: a member with less than a hundred-thousandth of the requests, and more dark members than `_MOST_TRIES`. By
then the plane has taken them out, and a try that comes later finds those that are left.

A service has a policy of its own: `service_retries`. There a request is tried again until the first byte of a response,
also after an endpoint broke off, stayed silent or answered that it cannot serve (429, 502, 503, 504), on an endpoint
that was not tried: first in the same tier, then in the next. A generation may then have begun on an endpoint that is
lost. An engine's own 500 is passed on: the request may be its cause.
"""

from collections.abc import Sequence

from modelplane.envoy.pools import EnvoyCluster
from modelplane.envoy.view import Resource

UNSERVED_HEADER = "x-modelplane-unserved"
"""On a gateway's own response to a request that no engine received: it may be retried."""

UNSERVED_CODES = (429, 502, 503, 504)
"""Responses that say that an endpoint did not serve the request."""

BODY_BYTES = 64 * 1024 * 1024
"""The body bytes that are buffered for retries. Envoy's default is a megabyte, which a long conversation exceeds."""

_FEWEST_TRIES, _MOST_TRIES = 4, 100
_MOST_DRAWS = 100_000
# Two draws find one of n members with 1/n²; twenty times as many miss it once in 10^8.
_CERTAIN = 20

_NOT_THE_SAME: Resource = {
    "name": "envoy.retry_host_predicates.previous_hosts",
    "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
    },
}


def retry_policy(pools: Sequence[EnvoyCluster]) -> Resource | None:
    """How requests to these are tried again; None where `USUAL` holds."""
    tries = max((len(pool.members) for pool in pools), default=0)
    draws = max(map(_draws, pools), default=0)
    usual = tries <= _FEWEST_TRIES and draws <= _USUAL_DRAWS
    return None if usual else _policy(min(tries, _MOST_TRIES), draws)


def service_retries(pool: EnvoyCluster, idle_s: float) -> Resource:
    """How requests of a service are tried again before the first byte."""
    sizes = [sum(member.tier == tier for member in pool.members) for tier in {each.tier for each in pool.members}]
    policy = _policy(min(len(pool.members), _MOST_TRIES), _draws(pool))
    return {
        **policy,
        "retry_on": "connect-failure,refused-stream,reset,retriable-status-codes,retriable-headers",
        "retriable_status_codes": list(UNSERVED_CODES),
        **({"per_try_idle_timeout": f"{idle_s:.3f}s"} if idle_s else {}),
        **({"retry_priority": _next_tier(min(2, *sizes))} if len(sizes) > 1 else {}),
    }


def _next_tier(tries: int) -> Resource:
    """So many tries in a tier, then the next."""
    kind = "envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig"
    return {
        "name": "envoy.retry_priorities.previous_priorities",
        "typed_config": {"@type": f"type.googleapis.com/{kind}", "update_frequency": tries},
    }


def _draws(pool: EnvoyCluster) -> int:
    weights = [member.weight for member in pool.members]
    if len(set(weights)) > 1:
        return min(sum(weights) // min(weights) + len(weights), _MOST_DRAWS)
    return min(_CERTAIN * len(weights) ** 2, _MOST_DRAWS)


def _policy(tries: int, draws: int) -> Resource:
    return {
        "retry_on": "connect-failure,refused-stream,reset-before-request,retriable-headers",
        "retriable_headers": [{"name": UNSERVED_HEADER, "present_match": True}],
        "num_retries": max(tries, _FEWEST_TRIES) - 1,
        "retry_back_off": {"base_interval": "0.025s", "max_interval": "0.050s"},
        "retry_host_predicate": [_NOT_THE_SAME],
        "host_selection_retry_max_attempts": max(draws, _USUAL_DRAWS),
    }


NO_RETRIES: Resource = {"retry_on": "", "num_retries": 0}
"""For a route whose retries are made by the hop before it."""
_USUAL_DRAWS = _CERTAIN * _FEWEST_TRIES**2
USUAL: Resource = _policy(_FEWEST_TRIES, _USUAL_DRAWS)
"""For a whole gateway."""
