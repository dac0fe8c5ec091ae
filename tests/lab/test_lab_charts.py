import asyncio
import io
import ssl
import tarfile
from pathlib import Path

import aiohttp
import yaml

from lab.certificates import new_authority
from lab.charts import SOURCES, PackedChart, _packed, _pulled, publish, table_values, tls_context
from lab.components import CERT_MANAGER, ENVOY_GATEWAY
from lab.registry import Registry
from modelplane.catalog.stack import load_stack

COMPONENTS = {component.name: component for component in load_stack().components}


def files(chart):
    with tarfile.open(fileobj=io.BytesIO(chart.archive)) as archive:
        return {entry.name: archive.extractfile(entry).read().decode() for entry in archive}


def source(name):
    (found,) = [each for each in SOURCES if each.component == name]
    return found


def write(folder, **contents):
    folder.mkdir(parents=True)
    for name, text in contents.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_every_chart_is_of_a_component_and_its_row_says_so():
    for each in SOURCES:
        row = COMPONENTS[each.component]
        same = row.chart.version.removeprefix("v") == each.module.version.removeprefix("v")
        assert same == row.source.startswith("chart of the module of this version"), each.component
        assert same or f"v{each.module.version.removeprefix('v')}" in row.source, each.component


def test_a_template_of_a_chart_gets_what_a_release_would_put_in(tmp_path):
    write(tmp_path / "deploy/charts/cert-manager", Chart__template__yaml="name: cert-manager\nappVersion: v0.0.0\n")
    made = _packed(COMPONENTS["cert-manager"], source("cert-manager"), tmp_path)
    described = yaml.safe_load(files(made)["cert-manager/Chart.yaml"])
    assert described == {"name": "cert-manager", "version": CERT_MANAGER.version, "appVersion": CERT_MANAGER.version}
    folder = tmp_path / "charts/gateway-helm"
    write(folder, Chart__yaml="name: gateway-helm\ndependencies: [{name: crds}, {name: away}]\n", Chart__lock="x")
    (folder / "values.tmpl.yaml").write_text("image: ${GatewayImage}\npolicy: ${GatewayImagePullPolicy}\n")
    (folder / "charts" / "crds").mkdir(parents=True)
    made = files(_packed(COMPONENTS["envoy-gateway"], source("envoy-gateway"), tmp_path))
    assert made.keys() == {"gateway-helm/Chart.yaml", "gateway-helm/values.yaml"}
    assert yaml.safe_load(made["gateway-helm/Chart.yaml"])["dependencies"] == [{"name": "crds"}]
    image = f"docker.io/envoyproxy/gateway:{ENVOY_GATEWAY.version}"
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


def test_the_fleet_of_the_lab_names_charts_that_can_be_had():
    (cluster,) = [
        each
        for each in yaml.safe_load_all(Path("lab/fleets/charts/fleet.yaml").read_text())
        if each["kind"] == "InferenceCluster"
    ]
    had = {each.component: each.module.version.removeprefix("v") for each in SOURCES}
    overrides = {each["name"]: each["version"] for each in cluster["spec"]["software"]["overrides"]}
    for name, version in overrides.items():
        assert version.removeprefix("v") == had[name]
