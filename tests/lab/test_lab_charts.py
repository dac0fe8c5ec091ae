import asyncio
import io
import ssl
import tarfile

import aiohttp
import pytest
import yaml

from lab.certificates import new_authority
from lab.chart_sources import SOURCES
from lab.charts import PackedChart, _pulled, packed, publish, table_values, tls_context
from lab.components import CERT_MANAGER
from lab.e2e.charts import FLEET, overrides
from lab.registry import Registry
from modelplane.catalog.stack import load_stack

COMPONENTS = {component.name: component for component in load_stack().components}


def files(chart):
    with tarfile.open(fileobj=io.BytesIO(chart.archive)) as archive:
        return {entry.name: archive.extractfile(entry).read().decode() for entry in archive}


def source(name):
    return next(each for each in SOURCES if each.component == name)


def test_a_template_of_a_chart_gets_what_a_release_would_put_in():
    given = {"Chart.template.yaml": b"name: cert-manager\nappVersion: v0.0.0\n"}
    made = packed(COMPONENTS["cert-manager"], source("cert-manager"), given)
    described = yaml.safe_load(files(made)["cert-manager/Chart.yaml"])
    assert described == {"name": "cert-manager", "version": CERT_MANAGER.version, "appVersion": CERT_MANAGER.version}
    given = {
        "Chart.yaml": b"name: gateway-helm\nappVersion: latest\ndependencies: [{name: crds}, {name: away}]\n",
        "Chart.lock": b"x",
        "values.tmpl.yaml": b"image: ${GatewayImage}\npolicy: ${GatewayImagePullPolicy}\n",
        "charts/crds/Chart.yaml": b"",
    }
    made = files(packed(COMPONENTS["envoy-gateway"], source("envoy-gateway"), given))
    assert made.keys() == {f"gateway-helm/{path}" for path in ("Chart.yaml", "values.yaml", "charts/crds/Chart.yaml")}
    described = {
        "name": "gateway-helm",
        "version": "v1.8.3",
        "appVersion": "v1.8.3",
        "dependencies": [{"name": "crds"}],
    }
    assert yaml.safe_load(made["gateway-helm/Chart.yaml"]) == described
    image = "docker.io/envoyproxy/gateway:v1.8.3"
    assert yaml.safe_load(made["gateway-helm/values.yaml"]) == {"image": image, "policy": "IfNotPresent"}


def test_images_past_a_mirror_are_found():
    text = 'a:\n  image: "docker.io/x:1"\n- image: mirror.example/y:2\n  image:\n    properties:\n'
    assert _pulled(text) == ("docker.io/x:1",)


def test_values_have_everything_that_the_table_may_say():
    values = table_values(COMPONENTS["kai"])
    assert values["scheduler"]["args"] == {"default-staleness-grace-period": "-1s"}
    assert values["global"]["registry"] == "mirror.example/ghcr.io/kai-scheduler/kai-scheduler"


def test_charts_are_served_as_the_table_names_them(tmp_path):
    """By HTTPS: as OCI artifacts, and by an index where the repository is no registry."""

    async def main():
        authority = new_authority("lab")
        certificate, key = authority.server("charts").write(tmp_path)
        registry = Registry()
        charts = [
            PackedChart(COMPONENTS["cert-manager"], "v1.20.2", b"archive", frozenset()),
            PackedChart(COMPONENTS["leader-worker-set"], "0.9.0", b"another", frozenset()),
        ]
        publish(registry, charts, "https://there")
        await registry.start("127.0.0.1", 0, tls_context(certificate, key))
        trusted = ssl.create_default_context(cadata=authority.pair.certificate.decode())
        base = f"https://127.0.0.1:{registry.address[1]}"
        try:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted)) as session:
                async with session.get(f"{base}/charts.jetstack.io/index.yaml") as answer:
                    (listed,) = yaml.safe_load(await answer.text())["entries"]["cert-manager"]
                assert listed["urls"] == ["https://there/charts.jetstack.io/cert-manager-v1.20.2.tgz"]
                async with session.get(f"{base}/charts.jetstack.io/cert-manager-v1.20.2.tgz") as answer:
                    assert await answer.read() == b"archive"
                async with session.get(f"{base}/v2/registry.k8s.io/lws/charts/lws/manifests/0.9.0") as answer:
                    (layer,) = (await answer.json(content_type=None))["layers"]
                async with session.get(f"{base}/v2/registry.k8s.io/lws/charts/lws/blobs/{layer['digest']}") as answer:
                    assert await answer.read() == b"another"
                assert layer["mediaType"] == "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
        finally:
            await registry.stop()

    asyncio.run(main())


def test_the_fleet_of_the_lab_mirrors_every_repository_of_its_charts():
    (cluster,) = [
        each for each in yaml.safe_load_all((FLEET / "fleet.yaml").read_text()) if "nodePools" in each["spec"]
    ]
    mirrored = {each["source"] for each in cluster["spec"]["software"]["registryMirrors"]}
    fits = [each for each in COMPONENTS.values() if each.chart and not each.only_on]
    assert {each.chart.repository.partition("://")[2].partition("/")[0] for each in fits} == mirrored


HAD = {"cert-manager": "v1.20.2", "kai": "v0.12.0", "grove": "v0.1.0-alpha.12-rc1"}


@pytest.mark.parametrize(
    ("stack", "had", "on"),
    [
        ("Standard", HAD, {"cert-manager": "v1.20.2", "kai": "v0.12.0"}),
        ("Dynamo", HAD, {"cert-manager": "v1.20.2", "kai": "v0.12.0"}),
        ("Dynamo", {**HAD, "kai": "v0.17.0"}, {**HAD, "kai": "v0.17.0"}),
        ("Standard", {}, {}),
    ],
    ids=["of another stack", "too old for its user", "all", "nothing"],
)
def test_a_cluster_gets_what_can_be_had_and_works_together(stack, had, on):
    made = overrides(stack, had)
    assert {each["name"]: each["version"] for each in made if each["enabled"]} == on
    off = {each["name"] for each in made if not each["enabled"]}
    assert off == {each.name for each in COMPONENTS.values() if each.chart and each.fits(stack, "Existing")} - on.keys()
