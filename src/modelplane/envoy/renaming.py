"""What requests call the model, without a router: Envoy puts an endpoint's name in the place of the service's.

Clients name a service in the body's `model`, and an engine answers 404 for a name that is not its own. A script in
Envoy replaces that one value and leaves every other byte as it is: a body that is parsed and written again would lose
the order of its keys, which is part of a prompt, and the last digits of large numbers.

A route says which names are replaced and by what. Replicas that one route may lead to must share the name; a provider
has a route of its own on the listener for providers, so its name may differ.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from modelplane.compose.service_plan import PlanEndpoint, ServicePlan, model_names
from modelplane.envoy.service_pools import is_gateway, providers
from modelplane.envoy.view import Resource

FILTER: Final = "modelplane.renaming"
_LUA: Final = "type.googleapis.com/envoy.extensions.filters.http.lua.v3"
_SCRIPT: Final = r"""
local QUOTE, BRACE, BRACKET = 34, 123, 91

local function last_of_string(text, at)
  while true do
    at = text:find('["\\]', at + 1)
    if at == nil or text:byte(at) == QUOTE then return at end
    at = at + 1
  end
end

-- Where the value of the outermost object's key "model" begins and ends, with its quotes.
local function find_model(text)
  local depth, at = 0, 1
  while true do
    at = text:find('["{}%[%]]', at)
    if at == nil then return nil end
    local found = text:byte(at)
    if found == QUOTE then
      local last = last_of_string(text, at)
      if last == nil then return nil end
      if depth == 1 and text:sub(at, last) == '"model"' then
        local from = text:match('^%s*:%s*()"', last + 1)
        if from ~= nil then return from, last_of_string(text, from) end
      end
      at = last
    elseif found == BRACE or found == BRACKET then
      depth = depth + 1
    else
      depth = depth - 1
    end
    at = at + 1
  end
end

function envoy_on_request(handle)
  local names = handle:filterContext():get("names")
  if names == nil then return end
  local body = handle:body()
  if body == nil then return end
  local text = body:getBytes(0, body:length())
  local from, to = find_model(text)
  if to == nil then return end
  local name = names[text:sub(from, to)]
  if name == nil then return end
  handle:headers():replace("content-length", body:setBytes(text:sub(1, from - 1) .. name .. text:sub(to + 1)))
end
"""


def renaming_filter() -> Resource:
    """Does nothing on routes that name nothing."""
    source = {"inline_string": _SCRIPT}
    return {"name": FILTER, "typed_config": {"@type": f"{_LUA}.Lua", "default_source_code": source}}


def service_renamings(plans: Iterable[ServicePlan]) -> dict[str, Resource]:
    """For the routes to services, by service: its names become its replicas', where these share one."""
    names: dict[str, dict[str, str]] = {}
    for name, plan in model_names(plans).items():
        model = replica_model(plan)
        if model is not None and model != name:
            names.setdefault(plan.key, {})[name] = model
    return {key: _context(each) for key, each in names.items()}


def provider_renamings(plans: Iterable[ServicePlan]) -> dict[str, Resource]:
    """For the routes to providers, by endpoint: what the services that have it may have been called."""
    found = list(plans)
    names: dict[str, dict[str, str]] = {}
    for name, plan in model_names(found).items():
        for endpoint in providers(plan):
            if endpoint.model is not None:
                called = (name, replica_model(plan))
                names.setdefault(endpoint.key, {}).update({each: endpoint.model for each in called if each})
    return {key: _context({name: to for name, to in each.items() if name != to}) for key, each in names.items()}


def replica_model(plan: ServicePlan) -> str | None:
    """The one name by which the replicas of a service know their model."""
    names = {endpoint.model for endpoint in _replicas(plan)}
    return next(iter(names)) if len(names) == 1 else None


def _replicas(plan: ServicePlan) -> Iterable[PlanEndpoint]:
    return (endpoint for tier in plan.serving for endpoint in tier.serving if is_gateway(endpoint))


def _context(names: Mapping[str, str]) -> Resource:
    """The configuration of a route; empty where nothing is renamed. Names are compared as JSON writes them."""
    if not names:
        return {}
    written = {each: _json(to) for name, to in sorted(names.items()) for each in _spellings(name)}
    config = {"@type": f"{_LUA}.LuaPerRoute", "filter_context": {"names": written}}
    return {"typed_per_filter_config": {FILTER: config}}


def _spellings(name: str) -> tuple[str, ...]:
    """Some encoders escape slashes."""
    return tuple(dict.fromkeys((_json(name), _json(name).replace("/", r"\/"))))


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()
