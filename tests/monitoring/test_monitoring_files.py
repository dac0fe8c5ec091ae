"""The shipped alerts, dashboard and PodMonitors name what the code exposes, and what people can type."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from modelplane.cli._main import COMMANDS, parser_of
from modelplane.compose.picker import LABEL as PICKER_LABEL
from modelplane.compose.router_objects import LABEL as ROUTER_LABEL
from modelplane.compose.router_objects import RouterSite, running_objects
from modelplane.crossplane.packaging import FUNCTION, PackageSource, installation
from tests.support.metric_table import all_rows, series_names

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "monitoring"
RULES = yaml.safe_load((FOLDER / "prometheusrule.yaml").read_text())
ALL_RULES = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in ALL_RULES if "alert" in rule}
RECORDED = {rule["record"] for rule in ALL_RULES if "record" in rule}
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS = {f"{panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]}
EXPRESSIONS = {**{rule.get("alert", rule.get("record")): rule["expr"] for rule in ALL_RULES}, **TARGETS}
METRIC = re.compile(r"\b(?:modelplane|llm_d_epp)[a-z0-9_:]+")
SELECTOR = re.compile(r"\b((?:modelplane|llm_d_epp)[a-z0-9_]+)\{([^}]*)\}")
GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
MONITORS = {item["metadata"]["name"]: item for item in yaml.safe_load_all((FOLDER / "podmonitors.yaml").read_text())}
promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on this machine")


def labels_by_series():
    rows = all_rows()
    return {name: {*row.labels, "le"} for row in rows for name in series_names([row])}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_metric_of_a_query_is_one_of_the_code(name):
    used = set(METRIC.findall(EXPRESSIONS[name]))
    assert used
    assert used - RECORDED <= series_names(all_rows())


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_label_of_a_query_is_one_of_its_metrics(name):
    known, expression = labels_by_series(), EXPRESSIONS[name]
    for metric, matchers in SELECTOR.findall(expression):
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)) <= known[metric]
    metrics = set(METRIC.findall(expression))
    made = set(re.findall(r'label_replace\([^,]+, "(\w+)"', expression)) | (
        {"namespace"} if metrics & RECORDED else set()
    )
    reachable = set().union(*(known.get(metric, set()) for metric in metrics)) | made
    grouped = {label for group in GROUPED.findall(expression) for label in group.replace(" ", "").split(",") if label}
    assert grouped <= reachable


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_and_names_a_command_that_exists(name):
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["for"]
    notes = alert["annotations"]
    assert set(notes) == {"summary", "description", "runbook"}
    assert notes["description"].endswith(".")
    words = shlex.split(re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"\1", notes["runbook"]))
    assert words[0] == "modelplane"
    command = {command.name: command for command in COMMANDS}[words[1]]
    for where in ("--data", "--kubeconfig"):
        parser_of(command).parse_args([*words[2:], where, "somewhere"])


@pytest.mark.parametrize("name", ALERTS)
def test_a_template_uses_labels_that_the_alert_has(name):
    alert = ALERTS[name]
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(alert["annotations"].values())))
    grouped = {label for group in GROUPED.findall(alert["expr"]) for label in group.replace(" ", "").split(",")}
    recorded = [rule["expr"] for rule in ALL_RULES if rule.get("record") in METRIC.findall(alert["expr"])]
    grouped |= {label for expr in recorded for group in GROUPED.findall(expr) for label in group.split(", ")}
    assert used <= grouped


def test_every_alert_is_tried_firing_and_silent():
    cases = yaml.safe_load((Path(__file__).parent / "alerts.yaml").read_text())["tests"]
    tried = [case for test in cases for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in tried if case.get("exp_alerts")} == set(ALERTS)
    assert {case["alertname"] for case in tried if not case.get("exp_alerts")} == set(ALERTS)


@promtool
def test_promtool_accepts_rules_and_queries(tmp_path):
    for name, expression in TARGETS.items():
        assert expression.strip(), name
    queries = [{"record": "checked", "expr": expression.replace("$__all", ".*")} for expression in TARGETS.values()]
    for index, groups in enumerate((RULES["spec"]["groups"], [{"name": "dashboard", "rules": queries}])):
        file = tmp_path / f"rules{index}.yaml"
        file.write_text(yaml.safe_dump({"groups": groups}))
        checked = run_promtool("check", "rules", "--lint=none", str(file))
        assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.submission
@promtool
@pytest.mark.slow
def test_alerts_fire_when_they_should_and_not_before(tmp_path):
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES["spec"]))
    tests = tmp_path / "alerts.yaml"
    tests.write_text((Path(__file__).parent / "alerts.yaml").read_text())
    checked = run_promtool("test", "rules", str(tests))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def run_promtool(*words):
    return subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)  # noqa: S607  where the machine has it


def test_panels_have_places_of_their_own():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert cells.isdisjoint(taken), panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_panels_take_the_data_source_that_the_user_chose():
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert set(variables) == {"datasource", "namespace", "cluster"}
    for panel in PANELS:
        assert panel["datasource"]["uid"] == "${datasource}"
        used = {name for target in panel["targets"] for name in re.findall(r"\$(\w+)", target["expr"])}
        assert used <= set(variables)
    names = {
        METRIC.search(variable["query"]["query"])[0] for variable in variables.values() if variable["type"] == "query"
    }
    assert names <= series_names(all_rows())


def test_the_function_is_scraped_where_it_is_installed():
    spec = MONITORS["modelplane-function"]["spec"]
    assert spec["selector"] == {"matchLabels": {"pkg.crossplane.io/function": FUNCTION}}
    runtimes = [
        item
        for item in installation(PackageSource("r.example/a", "r.example/b", "1"))
        if item["kind"] == "DeploymentRuntimeConfig"
    ]
    (ports,) = [
        container.get("ports")
        for item in runtimes
        if item["metadata"]["name"] == FUNCTION
        for container in item["spec"]["deploymentTemplate"]["spec"]["template"]["spec"]["containers"]
    ]
    assert spec["podMetricsEndpoints"][0]["port"] in {port["name"] for port in ports}


def picker_deployment():
    golden = ROOT / "tests" / "compose" / "golden" / "kimi-k2-5p3d.native.none.yaml"
    (found,) = (
        item
        for item in yaml.safe_load_all(golden.read_text())
        if item["kind"] == "Deployment" and PICKER_LABEL in item["spec"]["template"]["metadata"].get("labels", {})
    )
    return found


@pytest.mark.parametrize(
    ("monitor", "label", "composed"),
    [
        ("modelplane-router", ROUTER_LABEL, lambda: running_objects(RouterSite("modelplane", "i"), [])["router"]),
        ("modelplane-picker", PICKER_LABEL, picker_deployment),
    ],
)
def test_routers_and_pickers_are_scraped_as_they_are_composed(monitor, label, composed):
    spec = MONITORS[monitor]["spec"]
    assert spec["selector"]["matchExpressions"] == [{"key": label, "operator": "Exists"}]
    template = composed()["spec"]["template"]
    assert label in template["metadata"]["labels"]
    ports = {port["name"] for container in template["spec"]["containers"] for port in container["ports"]}
    assert {endpoint["port"] for endpoint in spec["podMetricsEndpoints"]} <= ports
