import pytest

from modelplane.api.loader_exits import exit_code
from modelplane.sim.cluster.jobs import _fatal
from modelplane.sim.cluster.loaders import BROKEN, SourceFaults, _contents, _replaced


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", SourceFaults()),
        ("slow=20", SourceFaults(slow=20)),
        ("slow=0", SourceFaults()),
        ("broken=Unauthorized", SourceFaults(broken="Unauthorized")),
        ("broken=Nonsense,slow=x", SourceFaults()),
    ],
)
def test_faults_of_sources(text, expected):
    assert SourceFaults.read(text) == expected


def test_paths_of_the_container_become_folders():
    paths = {"/volume": "/tmp/v", "/run/credentials": "/tmp/c"}  # noqa: S108  names only
    words = ["--into", "/volume", "--file", "/run/credentials/TOKEN", "/volumes", "x"]
    assert [_replaced(word, paths) for word in words] == [
        *("--into", "/tmp/v", "--file", "/tmp/c/TOKEN", "/volumes", "x"),  # noqa: S108  names only
    ]


def test_keys_become_files_and_no_key_leads_out():
    assert dict(_contents("Secret", {"data": {"a": "eA==", "../b": "eA=="}})) == {"a": b"x"}
    assert dict(_contents("ConfigMap", {"data": {"a": "x"}, "binaryData": {"b": "eA=="}})) == {"a": b"x", "b": b"x"}


def test_an_exit_code_that_the_policy_names_fails_the_job():
    codes = {
        "containerName": "loader",
        "operator": "In",
        "values": sorted({exit_code(reason) for reason, _ in BROKEN.values()} - {75}),
    }
    rules = [{"action": "FailJob", "onExitCodes": codes}]
    job = {"spec": {"podFailurePolicy": {"rules": rules}}}

    def pod(code):
        state = {"terminated": {"exitCode": code}}
        return {
            "metadata": {"name": "p", "namespace": "n"},
            "status": {"containerStatuses": [{"name": "loader", "state": state}]},
        }

    assert _fatal(job, [pod(75)]) is None
    told = "Container loader for pod n/p failed with exit code 28 matching FailJob rule at index 0"
    assert _fatal(job, [pod(75), pod(28)]) == told
