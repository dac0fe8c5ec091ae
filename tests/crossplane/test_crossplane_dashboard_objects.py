"""The dashboard as it is installed: started as the program takes it, restricted, and allowed to read what it shows."""

from pathlib import Path

from modelplane.cli._main import _parser
from modelplane.crossplane.packaging import PackageSource, installation
from modelplane.web.control_cluster import ControlCluster
from tests.support.kube_api import running, tell
from tests.support.waiting import until

NAME, ROLE = "modelplane-dashboard", "modelplane:dashboard"


def installed(**more):
    items = installation(PackageSource("a.example/x", "a.example/y", "1.2.3", **more))
    return {(item["kind"], item["metadata"]["name"]): item for item in items if "dashboard" in item["metadata"]["name"]}


def pod(**more):
    return installed(**more)["Deployment", NAME]["spec"]["template"]["spec"]


def started():
    (container,) = pod()["containers"]
    words = ["dashboard", *container["args"]]
    return container, _parser(words).parse_args(words)


def test_it_is_there_unless_one_opts_out():
    assert installed(dashboard=False) == {}
    assert list(installed()) == [
        ("ServiceAccount", NAME),
        ("ClusterRole", ROLE),
        ("ClusterRoleBinding", ROLE),
        ("Deployment", NAME),
        ("Service", NAME),
        ("NetworkPolicy", NAME),
    ]


def test_it_is_started_as_the_program_takes_it():
    container, arguments = started()
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert (arguments.port, arguments.probe_port) == (ports["page"], ports["probes"])
    assert (arguments.address, arguments.kubeconfig) == ("", None)
    assert container["image"] == "a.example/x/modelplane-dashboard:v1.2.3"
    probes = [container[f"{each}Probe"]["httpGet"] for each in ("readiness", "liveness")]
    assert probes == [{"path": path, "port": ports["probes"]} for path in ("/readyz", "/healthz")]


def test_its_token_is_a_mounted_secret_that_may_come_later():
    container, arguments = started()
    (volume,) = pod()["volumes"]
    (mount,) = container["volumeMounts"]
    (item,) = volume["secret"]["items"]
    assert (volume["secret"]["secretName"], volume["secret"]["optional"]) == ("modelplane-dashboard-token", True)
    assert (mount["name"], mount["readOnly"], "subPath" in mount) == (volume["name"], True, False)
    assert arguments.token_file == Path(mount["mountPath"], item["path"])
    assert "env" not in container


def test_it_runs_unprivileged_on_a_read_only_file_system():
    (container,) = pod()["containers"]
    security = container["securityContext"]
    assert (security["runAsNonRoot"], security["readOnlyRootFilesystem"]) == (True, True)
    assert (security["allowPrivilegeEscalation"], security["capabilities"]) == (False, {"drop": ["ALL"]})


def test_pods_reach_its_probes_and_not_its_page():
    found = installed()
    container, _ = started()
    policy = found["NetworkPolicy", NAME]["spec"]
    assert policy["podSelector"] == found["Deployment", NAME]["spec"]["selector"]
    reached = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    assert reached == [port["containerPort"] for port in container["ports"] if port["name"] == "probes"]
    service = found["Service", NAME]["spec"]
    assert ([port["port"] for port in service["ports"]], service.get("type")) == ([8081], None)
    assert service["selector"] == found["Deployment", NAME]["spec"]["template"]["metadata"]["labels"]


def test_the_pull_secret_is_that_of_the_packages():
    assert "imagePullSecrets" not in pod()
    assert pod(pull_secret="pull")["imagePullSecrets"] == [{"name": "pull"}]


def rights():
    return {
        (verb, group, resource)
        for rule in installed()["ClusterRole", ROLE]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_it_uses_each_of_its_rights_and_no_other():
    used = set()

    async def story(api, client):
        cluster = ControlCluster(client)
        async with running(cluster.run()):
            await until(lambda: len(api.used) >= len(rights()) and not cluster.missing())
        used.update(api.used)

    tell(story)
    assert used == rights()


def test_its_role_reads_and_has_no_secret_and_no_wildcard():
    assert {verb for verb, _, _ in rights()} == {"list", "watch"}
    assert {"secrets", "*"} & {each for right in rights() for each in right} == set()
    (subject,) = installed()["ClusterRoleBinding", ROLE]["subjects"]
    assert (subject["kind"], subject["name"], subject["namespace"]) == ("ServiceAccount", NAME, "modelplane-system")
    assert pod()["serviceAccountName"] == subject["name"]


def test_its_objects_are_valid(problems):
    checked = [item for (kind, _), item in installed().items() if not kind.startswith("ClusterRole")]
    assert [problems(item) for item in checked] == [[]] * 4
