from modelplane.api.objects import name_of
from modelplane.envoy import GatewayView, render
from modelplane.testing.cluster import claim_template, deployment, gateway, gpu_pool, route, run_cluster, service

ALL = (claim_template(), deployment(replicas=2), service(), gateway(), route())


def test_the_view_says_where_ready_pods_really_answer():
    async def main(lab):
        lab.cluster.set_gateway_address("127.0.0.1:10080")
        lab.apply(*ALL)
        await lab.settle()
        return (
            lab.cluster.gateway_view(),
            sorted((name.removeprefix("east/"), at.port) for at, name in lab.engines.running.items()),
            lab.store.list("discovery.k8s.io", "EndpointSlice"),
        )

    view, pods, (listed,) = run_cluster(main, pools=[gpu_pool()])
    kept = {"creationTimestamp": "2025-06-15T15:06:40Z"}
    assert view == GatewayView(
        name="east",
        host="127.0.0.1",
        port=10080,
        routes=({**route(), "metadata": {**route()["metadata"], **kept}},),
        services=({**service(), "metadata": {**service()["metadata"], **kept}},),
        slices=tuple(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": f"{name_of(listed)}.{pod}",
                    "namespace": "team",
                    "labels": {"kubernetes.io/service-name": "model"},
                },
                "addressType": "IPv4",
                "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
                "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
            }
            for pod, port in pods
        ),
    )


def test_without_an_address_there_is_no_view():
    async def main(lab):
        lab.apply(*ALL)
        await lab.settle()
        before = lab.cluster.gateway_view()
        lab.cluster.set_gateway_address("[::1]:80")
        await lab.settle()
        after = lab.cluster.gateway_view()
        return before, (after.host, after.port)

    assert run_cluster(main, pools=[gpu_pool()]) == (None, ("::1", 80))


def test_listeners_hear_of_changes_and_of_nothing_else():
    async def main(lab):
        heard = []
        lab.cluster.on_gateway_view_change(lambda: heard.append(len(lab.cluster.gateway_view().slices)))
        lab.cluster.set_gateway_address("127.0.0.1:10080")
        lab.apply(*ALL)
        await lab.settle()
        up = list(heard)
        lab.apply(gateway())
        found = lab.get(service())
        lab.store.replace({**found, "metadata": {**found["metadata"], "annotations": {"note": "x"}}})
        await lab.settle()
        same = list(heard)
        lab.apply(deployment(replicas=0))
        await lab.settle()
        return up, same == up, heard[-1]

    up, same, last = run_cluster(main, pools=[gpu_pool()])
    assert up[-1] == 2
    assert same
    assert last == 0


def test_a_route_that_is_not_accepted_is_not_carried():
    closed = gateway()
    closed["spec"]["listeners"][0]["allowedRoutes"] = {}

    async def main(lab):
        lab.cluster.set_gateway_address("127.0.0.1:10080")
        lab.apply(closed, route(), service())
        await lab.settle()
        return lab.cluster.gateway_view().routes

    assert run_cluster(main) == ()


def test_a_port_that_no_engine_answers_on_has_no_endpoint():
    elsewhere = service()
    elsewhere["spec"]["ports"][0]["targetPort"] = 9999

    async def main(lab):
        lab.cluster.set_gateway_address("127.0.0.1:10080")
        lab.apply(claim_template(), deployment(), elsewhere, gateway(), route())
        await lab.settle()
        return lab.cluster.gateway_view().slices

    assert run_cluster(main, pools=[gpu_pool()]) == ()


def test_envoy_can_carry_the_view():
    async def main(lab):
        lab.cluster.set_gateway_address("127.0.0.1:10080")
        lab.apply(*ALL)
        await lab.settle()
        return lab.cluster.gateway_view()

    config = render([run_cluster(main, pools=[gpu_pool()])])
    assert config.problems == ()
    assert list(config.clusters) == ["east/Service/team/model/80"]
    assert all(str(port) in repr(config.clusters) for port in (20000, 20001))
