"""PodMonitors by the operator's own definition, and as the shipped file has them."""

from pathlib import Path

import yaml

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose import inference_cluster
from modelplane.compose.contract import ComposeRequest, Observed
from modelplane.compose.telemetry.monitors import engine_monitor, function_monitor, picker_monitor, router_monitor
from modelplane.crossplane.packaging import FUNCTION, PackageSource, installation
from modelplane.views.workload_rights import workload_role
from tests.compose.conftest import make_cluster, make_scene

SHIPPED = Path(__file__).resolve().parents[2] / "monitoring" / "podmonitors.yaml"
ALL = (function_monitor(FUNCTION, "crossplane-system"), router_monitor(), picker_monitor(), engine_monitor())


def test_they_are_what_the_operator_takes(problems):
    assert [found for item in ALL for found in problems(item)] == []


def test_rules_are_what_the_operator_takes(problems):
    assert problems(yaml.safe_load((SHIPPED.parent / "prometheusrule.yaml").read_text())) == []


def test_the_shipped_file_has_the_same():
    assert list(yaml.safe_load_all(SHIPPED.read_text())) == list(ALL)


def test_a_cluster_with_the_operator_gets_those_of_what_runs_there(problems):
    item = make_cluster("pool")
    assert "monitor-engines" not in composed(item).desired
    item["spec"]["monitors"] = "PrometheusOperator"
    desired = composed(item).desired
    made = [desired[key].target.manifest for key in ("monitor-pickers", "monitor-engines")]
    assert made == [picker_monitor(), engine_monitor()]
    observed = {key: Observed(desired[key].target, ready=True) for key in desired if key == "monitor-engines"}
    seen = composed(item, observed).desired
    assert {key: seen[key].ready for key in seen if key.startswith("monitor-")} == {
        "monitor-pickers": False,
        "monitor-engines": True,
    }
    rules = [rule for each in workload_role() if each["kind"] == "ClusterRole" for rule in each["rules"]]
    assert any("podmonitors" in rule["resources"] for rule in rules)
    assert [found for each in desired.values() for found in problems(each.target.manifest)] == []


def composed(item, observed=None):
    return inference_cluster.compose(ComposeRequest(decode(InferenceCluster, item), observed or {}))


def test_engines_are_scraped_as_they_are_composed():
    desired = make_scene("single-gpu").compose().desired
    (template,) = [
        each.target.manifest["spec"]["template"] for key, each in desired.items() if key.startswith("workload-")
    ]
    spec = engine_monitor()["spec"]
    (selected,) = spec["selector"]["matchExpressions"]
    assert selected["key"] in template["metadata"]["labels"]
    ports = {port["name"] for each in template["spec"]["containers"] for port in each["ports"]}
    assert {endpoint["port"] for endpoint in spec["podMetricsEndpoints"]} <= ports


def test_the_control_plane_gets_its_own_where_they_are_wanted():
    def monitors(**source):
        found = installation(PackageSource("r.example/a", "r.example/b", "1", **source))
        return [item["metadata"]["name"] for item in found if item["kind"] == "PodMonitor"]

    assert monitors() == []
    assert monitors(monitors=True) == ["modelplane-function", "modelplane-router"]
