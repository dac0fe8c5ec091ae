"""The routes of services: two ways in, the list of models, and the way out to providers.

    /NAMESPACE/SERVICE/v1/…     the address of a service
    /v1/…                       the service that the body's `model` names, read by Envoy's own filter; `renaming` puts
                                the engine's name there
    /anthropic/v1/…             the same for Anthropic's clients, also below the address of a service

A service without an endpoint that serves answers 503 with Retry-After, never 404: it exists. 404 is for a model that no
service has.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from modelplane.api.labels import REPLICA_HEADER
from modelplane.compose.endpoint_routes import RESIDENCY_HEADER
from modelplane.compose.service_plan import PlanEndpoint, ServicePlan, model_names
from modelplane.envoy.renaming import provider_renamings, service_renamings
from modelplane.envoy.retries import service_retries
from modelplane.envoy.service_pools import (
    provider_cluster_name,
    providers,
    routing_key,
    service_cluster_name,
    service_pool,
)
from modelplane.envoy.view import Resource

MODEL_METADATA: Final = "modelplane.model"
"""Where the filter puts the body's model; see `model_filter`."""
RETRY_AFTER_S: Final = 2
INTERNAL_HEADERS: Final = (
    *("x-envoy-original-path", "x-envoy-expected-rq-timeout-ms", "x-envoy-attempt-count", "x-envoy-internal"),
    *("x-envoy-external-address", "x-forwarded-for", "x-forwarded-proto", "x-modelplane-caller", "x-modelplane-model"),
)
"""Headers of the gateways that no provider gets."""
_KEYS: Final = ("authorization", "x-api-key")
"""Where clients send their keys."""
_NO_MODEL: Final[tuple[Resource, ...]] = tuple(
    {
        "match": {"prefix": prefix},
        "route": {"cluster": "no-such-model", "cluster_not_found_response_code": "NOT_FOUND", "timeout": "0s"},
    }
    for prefix in ("/v1/", "/anthropic/v1/")
)
"""Until the body is read, a request has this route. It must be one that buffers bodies, and one that is not found."""
_FILTERS: Final = "type.googleapis.com/envoy.extensions.filters.http"


def front_routes(gateway: str, plans: Iterable[ServicePlan], *, has_router: bool = False) -> list[Resource]:
    """The routes of the gateway's own listener, the most specific first."""
    found = sorted(plans, key=lambda plan: plan.key)
    names = model_names(found)
    renamed = service_renamings(found)
    by_path = [{**route, **renamed.get(plan.key, {})} for plan in found for route in _by_path(gateway, plan)]
    by_model = [
        {**route, **renamed.get(plan.key, {})}
        for name, plan in sorted(names.items())
        for route in _by_model(gateway, name, plan)
    ]
    return [_residency(has_router=has_router), *by_path, *_models(names), *by_model, *_NO_MODEL]


def provider_routes(gateway: str, plans: Iterable[ServicePlan], credentials: Mapping[str, str]) -> Iterator[Resource]:
    """The routes of the listener for providers, one for each endpoint."""
    known = list(plans)
    found = {endpoint.key: endpoint for plan in known for endpoint in providers(plan)}
    renamed = provider_renamings(known)
    return ({**_outward(gateway, found[key], credentials.get(key)), **renamed.get(key, {})} for key in sorted(found))


def model_filter() -> Resource:
    """Reads `model` of a JSON body, and lets the routes be matched again."""
    absent = {"metadata_namespace": MODEL_METADATA, "key": "model", "value": ""}
    rule = {
        "selectors": [{"key": "model"}],
        "on_present": {"metadata_namespace": MODEL_METADATA, "key": "model", "type": "STRING"},
        "on_missing": absent,
        "on_error": absent,
    }
    return {
        "name": "modelplane.model",
        "typed_config": {
            "@type": f"{_FILTERS}.json_to_metadata.v3.JsonToMetadata",
            "request_rules": {"rules": [rule]},
        },
    }


def _residency(*, has_router: bool) -> Resource:
    """Refuses requests that say where they may be served: these routes cannot hold it. A router removes the header."""
    status, sentence = 403, f"{RESIDENCY_HEADER} needs the fleet router, which this gateway has not."
    if has_router:
        status, sentence = 503, f"{RESIDENCY_HEADER} needs the fleet router, which does not answer."
    return {
        "match": {"prefix": "/", "headers": [{"name": RESIDENCY_HEADER, "present_match": True}]},
        "direct_response": {"status": status, "body": {"inline_string": sentence}},
    }


def _by_path(gateway: str, plan: ServicePlan) -> Iterator[Resource]:
    prefix = f"/{plan.key}"
    yield _served(gateway, plan, {"prefix": f"{prefix}/anthropic/v1/"}, "/v1/")
    yield _served(gateway, plan, {"prefix": f"{prefix}/"}, "/")
    yield _served(gateway, plan, {"path": prefix}, "/")


def _by_model(gateway: str, name: str, plan: ServicePlan) -> Iterator[Resource]:
    named = {
        "filter": MODEL_METADATA,
        "path": [{"key": "model"}],
        "value": {"string_match": {"exact": name}},
    }
    yield _served(gateway, plan, {"prefix": "/v1/", "dynamic_metadata": [named]}, None)
    yield _served(gateway, plan, {"prefix": "/anthropic/v1/", "dynamic_metadata": [named]}, "/v1/")


def _served(gateway: str, plan: ServicePlan, match: Resource, rewrite: str | None) -> Resource:
    pool = service_pool(gateway, plan)
    if pool is None:
        return {"match": match, **_unready(plan)}
    action: Resource = {
        "cluster": service_cluster_name(gateway, plan),
        "timeout": _seconds(plan.timeouts.request_s),
        "retry_policy": service_retries(pool, plan.timeouts.idle_s),
        **_idle(plan),
    }
    if rewrite is not None:
        action["prefix_rewrite"] = rewrite
    has_keys = any(endpoint.credential is not None for endpoint in plan.endpoints)
    removed = [REPLICA_HEADER, *(_KEYS if has_keys else ())]
    return {"match": match, "route": action, "request_headers_to_remove": removed}


def _idle(plan: ServicePlan) -> Resource:
    """Each try has its own limit of silence; that of the whole stream must not end a request between two tries."""
    return {"idle_timeout": _seconds(plan.timeouts.request_s)} if plan.timeouts.idle_s else {"idle_timeout": "0s"}


def _unready(plan: ServicePlan) -> Resource:
    tried = [endpoint for endpoint in plan.endpoints if endpoint.reason]
    why = f" {tried[0].name}: {tried[0].reason}." if tried else ""
    sentence = f"No endpoint of {plan.key} is ready to answer.{why}"
    return {"direct_response": {"status": 503, "body": {"inline_string": sentence}}}


def _models(names: Mapping[str, ServicePlan]) -> Iterator[Resource]:
    """All services: a gateway authenticates callers and does not tell them apart."""
    listed = [
        {"id": name, "object": "model", "created": 0, "owned_by": plan.namespace}
        for name, plan in sorted(names.items())
    ]
    body = msgspec.json.encode({"object": "list", "data": listed}).decode()
    answer: Resource = {
        "direct_response": {"status": 200, "body": {"inline_string": body}},
        "response_headers_to_add": [_set("content-type", "application/json")],
    }
    method = {"name": ":method", "string_match": {"exact": "GET"}}
    for path in ("/v1/models", "/anthropic/v1/models"):
        yield {"match": {"path": path, "headers": [method]}, **answer}


def _outward(gateway: str, endpoint: PlanEndpoint, credential: str | None) -> Resource:
    match = {"name": REPLICA_HEADER, "string_match": {"exact": routing_key(endpoint)}}
    added = []
    removed = [*INTERNAL_HEADERS, *(() if endpoint.replica is not None else (REPLICA_HEADER,))]
    if endpoint.credential is not None:
        if credential is None:
            sentence = f"{endpoint.key} has no credential."
            return {
                "match": {"prefix": "/", "headers": [match]},
                "direct_response": {"status": 503, "body": {"inline_string": sentence}},
            }
        added.append(_set(endpoint.credential.header, credential))
    action: Resource = {
        "cluster": provider_cluster_name(gateway, endpoint),
        "timeout": "0s",
        "idle_timeout": "0s",
        "prefix_rewrite": f"{endpoint.prefix}/",
    }
    if endpoint.host is not None:
        action["host_rewrite_literal"] = endpoint.host
    return {
        "match": {"prefix": "/v1/", "headers": [match]},
        "route": action,
        "request_headers_to_add": added,
        "request_headers_to_remove": removed,
    }


def _set(name: str, value: str) -> Resource:
    # A percent sign begins a variable in Envoy.
    return {
        "header": {"key": name, "value": value.replace("%", "%%")},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}s"
