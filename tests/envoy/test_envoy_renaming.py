"""The model's name in requests without a router: what routes are told, and what a real Envoy does to bodies."""

import json

import pytest
from aiohttp import ClientSession

from modelplane.compose.service_plan import PlanEndpoint, PlanTier, ServicePlan
from modelplane.envoy import GatewayView, free_port, render
from modelplane.envoy.renaming import provider_renamings, replica_model, service_renamings
from tests.envoy.test_envoy_fleet_services import Upstream

HOST = "127.0.0.1"


def replica(name, port=80, model=None):
    return PlanEndpoint(
        f"team-a/{name}", "main", 1, False, HOST, port, None, model=model, replica=f"team-a/{name}", cluster="east"
    )


def provider(name, port=80, model=None):
    host = f"api.{name}.example"
    return PlanEndpoint(f"team-a/{name}", "hosted", 1, False, "localhost", port, host, model=model, addresses=(HOST,))


def plan(*tiers, **fields):
    made = tuple(PlanTier(number, tuple(tier)) for number, tier in enumerate(tiers))
    return ServicePlan("team-a", "demo", tiers=made, **fields)


def names(resource):
    return resource["typed_per_filter_config"]["modelplane.renaming"]["filter_context"]["names"]


@pytest.mark.parametrize(
    ("tiers", "model"),
    [
        pytest.param([[replica("a", model="qwen")]], "qwen", id="one"),
        pytest.param([[replica("a", model="qwen")], [replica("b", model="qwen")]], "qwen", id="tiers alike"),
        pytest.param([[replica("a", model="qwen"), replica("b", model="other")]], None, id="two names"),
        pytest.param([[replica("a", model="qwen"), replica("b")]], None, id="one is not known"),
        pytest.param([[replica("a", model="qwen"), provider("p", model="acme/x")]], "qwen", id="beside a provider"),
        pytest.param([[provider("p", model="acme/x")]], None, id="providers rename on their own"),
        pytest.param([], None, id="none"),
    ],
)
def test_replicas_share_a_name_or_nothing_is_renamed(tiers, model):
    assert replica_model(plan(*tiers)) == model


def test_a_service_is_renamed_under_its_own_name_and_its_aliases_however_slashes_are_written():
    made = plan([replica("a", model='q"8')], aliases=("fast",))
    assert names(service_renamings([made])["team-a/demo"]) == {
        '"team-a/demo"': '"q\\"8"',
        r'"team-a\/demo"': '"q\\"8"',
        '"fast"': '"q\\"8"',
    }


def test_a_provider_gets_its_own_name_whatever_the_route_before_it_wrote():
    made = plan([replica("a", model="qwen")], [provider("p", model="acme")])
    assert names(provider_renamings([made])["team-a/p"]) == {
        '"team-a/demo"': '"acme"',
        r'"team-a\/demo"': '"acme"',
        '"qwen"': '"acme"',
    }


def test_what_needs_no_other_name_gets_no_configuration():
    assert service_renamings([plan([replica("a", model="team-a/demo")])]) == {}
    assert provider_renamings([plan([provider("p")])]) == {}


BODIES = {
    '{"model": "team-a/demo", "seed": 9223372036854775807, "b": 1.0, "a": 2}': (
        '{"model": "qwen", "seed": 9223372036854775807, "b": 1.0, "a": 2}'
    ),
    r'{"x":{"model":"team-a/demo"},"y":["model","team-a/demo"],"z":"\"model\":\\","model":"team-a\/demo"}': (
        r'{"x":{"model":"team-a/demo"},"y":["model","team-a/demo"],"z":"\"model\":\\","model":"qwen"}'
    ),
    '{"model":"qwen","messages":[]}': '{"model":"qwen","messages":[]}',
    '{"messages":["' + "long " * 100_000 + '"],"model":"team-a/demo"}': (
        '{"messages":["' + "long " * 100_000 + '"],"model":"qwen"}'
    ),
    '{"model":3}': '{"model":3}',
    '{"model":"team-a/demo': '{"model":"team-a/demo',
    "not json": "not json",
    "": "",
}


@pytest.mark.e2e
def test_envoy_changes_the_name_and_no_other_byte(play):
    async def scenario(world):
        port = free_port()
        async with Upstream("a").serve() as engine:
            made = plan([replica("a", engine.port, "qwen")])
            await world.envoy.start(render([GatewayView(name="fleet", host=HOST, port=port, plans=(made,))]))
            async with ClientSession() as session:
                for body in BODIES:
                    url = f"http://{HOST}:{port}/team-a/demo/v1/chat/completions"
                    async with session.post(url, data=body.encode()) as answer:
                        assert answer.status == 200
                url = f"http://{HOST}:{port}/v1/chat/completions"
                async with session.post(url, json={"model": "team-a/demo"}) as answer:
                    assert answer.status == 200
            *by_path, by_model = [body.decode() for _, _, _, body in engine.seen]
            assert by_path == list(BODIES.values())
            assert json.loads(by_model) == {"model": "qwen"}

    play(scenario)


@pytest.mark.e2e
def test_a_provider_beside_a_dark_replica_is_called_by_its_own_name(play):
    async def scenario(world):
        port = free_port()
        async with Upstream("p").serve() as hosted:
            made = plan([replica("a", free_port(), "qwen")], [provider("p", hosted.port, "acme/large")])
            await world.envoy.start(render([GatewayView(name="fleet", host=HOST, port=port, plans=(made,))]))
            async with ClientSession() as session:
                url = f"http://{HOST}:{port}/v1/chat/completions"
                async with session.post(url, json={"model": "team-a/demo"}) as answer:
                    assert answer.status == 200
            ((_, path, _, body),) = hosted.seen
            assert (path, json.loads(body)) == ("/v1/chat/completions", {"model": "acme/large"})

    play(scenario)
