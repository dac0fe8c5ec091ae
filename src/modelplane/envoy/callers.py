"""Who may call a gateway: Envoy's own filter for API keys.

A client sends its key as Authorization Bearer or as x-api-key. Envoy puts the caller's name into a header and takes the
key off, so that no engine and no provider sees it. Without callers everybody may call, and a client's own header of
that name is removed: nobody can claim to be a caller.

The keys are in the table of routes: a key that is taken away is refused at once, also on connections that are open.
Those of a listener would hold until its connections are drained.
"""

from collections.abc import Sequence

from modelplane.envoy.view import CallerKey, Resource

CALLER_HEADER = "x-modelplane-caller"
API_KEY_FILTER = "envoy.filters.http.api_key_auth"
HEALTH_PATH = "/healthz"
_SOURCES: Resource = {
    "key_sources": [{"header": "Authorization"}, {"header": "x-api-key"}],
    "forwarding": {"header": CALLER_HEADER, "hide_credentials": True},
}
_FILTERS = "type.googleapis.com/envoy.extensions.filters.http"


def caller_filters(callers: Sequence[CallerKey] | None) -> list[Resource]:
    """None: the gateway asks for no keys. Without a single key nobody may call."""
    forget: Resource = {
        "name": "modelplane.caller",
        "typed_config": {
            "@type": f"{_FILTERS}.header_mutation.v3.HeaderMutation",
            "mutations": {"request_mutations": [{"remove": CALLER_HEADER}]},
        },
    }
    if callers is None:
        return [forget]
    keys = {"@type": f"{_FILTERS}.api_key_auth.v3.ApiKeyAuth", **_SOURCES}
    return [forget, {"name": API_KEY_FILTER, "typed_config": keys}]


def caller_keys(callers: Sequence[CallerKey] | None) -> Resource:
    """What the virtual host of a gateway says of its callers."""
    if callers is None:
        return {}
    keys = {
        "@type": f"{_FILTERS}.api_key_auth.v3.ApiKeyAuthPerRoute",
        "credentials": [{"key": caller.key, "client": caller.identity} for caller in callers],
        **_SOURCES,
    }
    return {"typed_per_filter_config": {API_KEY_FILTER: keys}}


def health_route() -> Resource:
    """Answers load balancers, without a key."""
    return {
        "match": {"path": HEALTH_PATH},
        "direct_response": {"status": 200, "body": {"inline_string": "ok"}},
        "typed_per_filter_config": {
            API_KEY_FILTER: {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": True}
        },
    }
