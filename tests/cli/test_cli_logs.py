"""`modelplane logs`: which files are whose, and what is printed of them."""

import asyncio
import ssl

import pytest

from modelplane.api.errors import InputError, NotFoundError
from modelplane.cli import main
from modelplane.cli.logs import ContainerLog, _new_lines, log_files, replicas_of
from modelplane.cli.running import RunningPlane
from modelplane.compose.context import remote_namespace, workload_name
from modelplane.kube.kinds import GroupVersionResource
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
    with pytest.raises(NotFoundError, match="nope not found"):
        asyncio.run(found("ModelDeployment", "team", "nope"))


def test_the_number_of_lines_is_one(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["logs", "md/x", "--tail", "-1"])
    assert "'-1' is not a number of lines" in capsys.readouterr().err
