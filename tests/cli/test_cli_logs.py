"""`modelplane logs`: which files are whose, and what is printed of them."""

import asyncio
import base64
import json
import os
import ssl
import sys
import time

import pytest

from modelplane.api.errors import InputError, NotFoundError
from modelplane.cli import main
from modelplane.cli._pod_logs import LogRange
from modelplane.cli.logs import ContainerLog, _new_lines, log_files, replicas_of
from modelplane.cli.running import RunningPlane
from modelplane.compose.context import remote_namespace, workload_name
from modelplane.kube.kinds import GroupVersionResource
from modelplane.plane.certificates import server_context
from tests.support.kube_api import KubeApi

DEPLOYMENTS = GroupVersionResource("modelplane.ai", "v1alpha1", "modeldeployments")
REPLICAS = GroupVersionResource("modelplane.ai", "v1alpha1", "modelreplicas")


def replica(name, cluster="this-machine", deployment="chat"):
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"clusterName": cluster, "deployment": {"name": deployment}, "engines": [{"name": "main"}]},
    }


@pytest.fixture
def write(tmp_path):
    def to_file(name, text, namespace="team", pod="5d9-x2"):
        folder = tmp_path / "this-machine" / "logs" / remote_namespace(namespace)
        path = folder / f"{workload_name(name, 'main')}-{pod}" / "engine.log"
        path.parent.mkdir(parents=True)
        path.write_bytes(text)
        return path

    return to_file


def test_files_are_those_of_the_replicas_pods(write, tmp_path):
    ours = [write("chat-a", b"1\n"), write("chat-a", b"2\n", pod="5d9-x3"), write("chat-b", b"3\n")]
    write("other-a", b"4\n")
    write("chat-a", b"5\n", namespace="elsewhere")
    found = log_files(tmp_path, [replica("chat-a"), replica("chat-b"), replica("chat-c", "east")])
    assert found == sorted(ours)
    assert log_files(tmp_path, [replica("chat-d")]) == []


@pytest.mark.parametrize(
    ("replicas", "error", "says"),
    [
        ([], NotFoundError, "there are no replicas"),
        ([replica("a", "west"), replica("b", "east")], InputError, "its replicas are on east, west; logs are kept for"),
    ],
)
def test_where_none_are_kept_that_is_said(replicas, error, says, tmp_path):
    with pytest.raises(error, match=says):
        log_files(tmp_path, replicas)


def test_lines_have_their_pod_and_stay_text(write):
    path = write("chat-a", b"one\ntwo\tx\x1b[2J\nthree")
    title = f"[{path.parent.name}/engine]"
    assert list(_new_lines([ContainerLog(path)], 2, follow=False)) == [f"{title} two     x\\x1b[2J", f"{title} three"]


def test_a_line_that_grows_is_shown_when_it_ends(write):
    path = write("chat-a", b"one\ntw")
    log = ContainerLog(path)
    assert log.lines(whole=False) == ["one"]
    with path.open("ab") as file:
        file.write(b"o\n")
    assert log.lines(whole=False) == ["two"]
    assert log.lines(whole=False) == []


def test_replicas_are_those_of_the_deployment():
    async def found(*request):
        api = KubeApi()
        api.put(DEPLOYMENTS, {"metadata": {"name": "chat", "namespace": "team"}})
        for item in (replica("chat-a"), replica("chat-b"), replica("x", deployment="other")):
            api.put(REPLICAS, item)
        async with api.serving():
            plane = RunningPlane(api.url, "", ssl.create_default_context())
            items = await asyncio.to_thread(replicas_of, plane, *request)
        return [item["metadata"]["name"] for item in items]

    assert asyncio.run(found("ModelDeployment", "team", "chat")) == ["chat-a", "chat-b"]
    assert asyncio.run(found("ModelReplica", "team", "x")) == ["x"]
    with pytest.raises(NotFoundError, match=r"nope not found; there is chat$"):
        asyncio.run(found("ModelDeployment", "team", "nope"))


def test_the_number_of_lines_is_one(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["logs", "md/x", "--tail", "-1"])
    assert "'-1' is not a number of lines" in capsys.readouterr().err


PODS = GroupVersionResource("", "v1", "pods")
SECRETS = GroupVersionResource("", "v1", "secrets")
CLUSTERS = GroupVersionResource("modelplane.ai", "v1alpha1", "inferenceclusters")


def pod(name, of, *containers, namespace="team"):
    return {
        "metadata": {"name": name, "namespace": remote_namespace(namespace), "labels": {"modelplane.ai/replica": of}},
        "spec": {"containers": [{"name": each} for each in containers]},
    }


def cluster(name):
    spec = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": f"{name}-kubeconfig"}}}}
    return {"metadata": {"name": name}, "spec": {**spec, "nodePools": []}}


def kubeconfig(url, authority, **user):
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": user or {"token": "t"}}],
    }


class LogFleet:
    """A control plane and two workload clusters, each a real server with TLS, and their kubeconfigs."""

    def __init__(self, folder):
        self.folder, self.control, self.east, self.west = folder, KubeApi(), KubeApi(), KubeApi()
        for name in ("east", "west"):
            self.control.put(CLUSTERS, cluster(name))
        self.control.put(DEPLOYMENTS, {"metadata": {"name": "chat", "namespace": "team", "labels": {"app": "chat"}}})
        self.control.put(REPLICAS, replica("chat-a", "east"))
        self.control.put(REPLICAS, replica("chat-b", "west"))
        self.east.put(PODS, pod("chat-a-1", "chat-a", "engine", "sidecar"))
        self.east.put(PODS, pod("foreign", "other", "engine"))
        self.west.put(PODS, pod("chat-b-1", "chat-b", "engine"))
        self.east.logs = {"chat-a-1/engine": "one\ntwo\n\x1b[2Jthree\n", "chat-a-1/sidecar": "ready\n"}
        self.west.logs = {"chat-b-1": "four\n"}

    def secret(self, name, document):
        data = {"kubeconfig": base64.b64encode(json.dumps(document).encode()).decode()}
        self.control.put(SECRETS, {"metadata": {"name": name, "namespace": "modelplane-system"}, "data": data})

    async def type(self, *words, followed=0, complaints=0):
        """What the command prints, run as a process of its own."""
        environment = {**os.environ, "PYTHONPATH": ":".join(path for path in sys.path if path)}
        where = ["-n", "team", "--kubeconfig", str(self.folder / "config")]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "modelplane", "logs", *words, *where,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment,
        )  # fmt: skip
        try:
            async with asyncio.timeout(60):
                said = [await process.stderr.readline() for _ in range(complaints)]
                lines = [await process.stdout.readline() for _ in range(followed)]
                self.east.drop()
                self.west.drop()
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return process.returncode, b"".join([*lines, out]).decode(), b"".join([*said, err]).decode()

    async def run(self, story):
        context, certificate = server_context(self.folder, now=time.time())
        authority = base64.b64encode(certificate).decode()
        async with self.control.serving(context), self.east.serving(context), self.west.serving(context):
            (self.folder / "config").write_text(json.dumps(kubeconfig(self.control.url, authority)))
            (self.folder / "west").write_text(json.dumps(kubeconfig(self.west.url, authority)))
            self.secret("east-kubeconfig", kubeconfig(self.east.url, authority))
            self.secret("west-kubeconfig", kubeconfig(self.west.url, authority))
            await story(self, authority)


ALL = """\
[east/chat-a-1/engine] one
[east/chat-a-1/engine] two
[east/chat-a-1/engine] \\x1b[2Jthree
[east/chat-a-1/sidecar] ready
[west/chat-b-1/engine] four
"""


async def _story(fleet, authority):
    assert await fleet.type("md/chat") == (0, ALL, "")
    assert await fleet.type("mr/chat-b") == (0, "[west/chat-b-1/engine] four\n", "")
    code, out, _ = await fleet.type("md/chat", "--tail", "1")
    assert (code, [line.split()[1] for line in out.splitlines()]) == (0, ["\\x1b[2Jthree", "ready", "four"])
    code, out, _ = await fleet.type("md/chat", "-f", followed=5)
    assert (code, sorted(out.splitlines())) == (0, sorted(ALL.splitlines()))

    assert await fleet.type("mr/chat-a", "mr/chat-b", "mr/chat-a") == (0, ALL, "")
    assert await fleet.type("mr", "chat-a", "chat-b", "-c", "sidecar") == (0, "[east/chat-a-1/sidecar] ready\n", "")
    assert await fleet.type("-l", "app=chat") == (0, ALL, "")
    assert await fleet.type("mr", "-l", "app=none") == (
        1, "", "modelplane logs: no ModelReplica in namespace team has the labels app=none\n",
    )  # fmt: skip
    code, out, err = await fleet.type("md/chat", "-c", "none")
    assert (code, out, "no pod has a container none" in err) == (1, "", True)
    assert (await fleet.type("md/chat", "--since", "10m", "--timestamps", "-p"))[0] == 0
    asked = {"container": "engine", "sinceSeconds": "600", "previous": "true", "timestamps": "true"}
    assert fleet.west.log_queries[-1] == asked

    fleet.west.logs.clear()
    assert await fleet.type("md/chat") == (
        1, ALL.removesuffix("[west/chat-b-1/engine] four\n"),
        "[west/chat-b-1/engine] container of chat-b-1 is waiting\n",
    )  # fmt: skip
    fleet.west.logs["chat-b-1"] = "four\n"
    fleet.secret("west-kubeconfig", kubeconfig(fleet.west.url, authority, tokenFile="/etc/passwd"))
    code, out, err = await fleet.type("md/chat")
    assert (code, out.count("\n"), err) == (
        1, 4, (
            "cluster west: Secret modelplane-system/west-kubeconfig: it names the file /etc/passwd, and is in none "
            "itself; write the data into it\n"
        ),
    )  # fmt: skip
    dark = kubeconfig("https://127.0.0.1:1", authority)
    fleet.secret("west-kubeconfig", dark)
    code, out, err = await fleet.type("md/chat", "-f", followed=4, complaints=1)
    assert (code, sorted(out.splitlines())) == (1, sorted(ALL.splitlines()[:4]))
    assert err == "cluster west: the plane at https://127.0.0.1:1 is unreachable: [Errno 111] Connection refused\n"
    fleet.control.delete(SECRETS, "west-kubeconfig", "modelplane-system")
    code, out, err = await fleet.type("md/chat")
    assert (code, out.count("\n"), "--cluster west=FILE gives another kubeconfig" in err) == (1, 4, True)
    assert await fleet.type("md/chat", "--cluster", f"west={fleet.folder / 'west'}") == (0, ALL, "")
    fleet.control.put(REPLICAS, replica("chat-c", "north", deployment="late"))
    fleet.control.put(CLUSTERS, cluster("north"))
    code, _, err = await fleet.type("mr/chat-c")
    assert (code, err.startswith("cluster north: Secret modelplane-system/north-kubeconfig: ")) == (1, True)


@pytest.mark.submission
@pytest.mark.e2e
def test_pods_on_every_cluster_are_read_by_their_own_api(tmp_path):
    asyncio.run(LogFleet(tmp_path).run(_story))


def test_a_cluster_is_named_with_its_file(capsys):
    with pytest.raises(SystemExit):
        main(["logs", "md/chat", "--cluster", "east"])
    assert "'east' is not NAME=FILE" in capsys.readouterr().err
    assert main(["logs", "md/chat", "--cluster", "east=x"]) == 1
    assert "--cluster goes with --kubeconfig" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "give md/NAME or mr/NAME, or labels of deployments by -l"),
        (["md/chat", "--since", "10m"], "--since goes with --kubeconfig: engines of this machine have files"),
        (["md/chat", "--previous"], "--previous goes with --kubeconfig"),
        (["md/chat", "--timestamps"], "--timestamps goes with --kubeconfig"),
        (["md/chat", "x"], "'md/chat x' is not KIND NAME or KIND/NAME"),
        (["ms/chat"], "'ms' is not a kind of this command"),
    ],
)
def test_what_cannot_be_shown_is_refused(words, says, capsys):
    assert main(["logs", *words]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wanted", "options"),
    [
        (LogRange(), {}),
        (LogRange(tail=0, follow=True), {"tailLines": "0", "follow": "true"}),
        (LogRange(since_s=600, previous=True), {"sinceSeconds": "600", "previous": "true"}),
    ],
)
def test_a_range_as_the_pod_log_api_spells_it(wanted, options):
    assert wanted.options() == options
