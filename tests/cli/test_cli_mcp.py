"""`modelplane mcp` over real pipes: by the official client, against a real plane."""

import asyncio
import io
import re
import sys
from pathlib import Path

import pytest

from modelplane.cli import mcp
from modelplane.cli._mcp_session import HANDSHAKE_VERSIONS, VERSIONS
from modelplane.cli._mcp_tools import TOOLS
from modelplane.cli.manifests import read_documents
from modelplane.cli.mcp import lines_of
from modelplane.plane.plane import Plane, PlaneSettings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
MANIFESTS = "\n---\n".join(file.read_text() for file in sorted(EXAMPLES.glob("*.yaml")))


def test_the_help_names_every_tool():
    words = set(re.findall(r"[a-z_]+", mcp._EPILOG))
    assert {tool.name for tool in TOOLS} <= words


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b"", []),
        (b"one\n\ntwo\n", [b"one\n", b"two\n"]),
        (b"no end", [b"no end"]),
        (b"x" * 25 + b"\nafter\n", [b"x" * 10, b"after\n"]),
        (b"x" * 10 + b"\nafter\n", [b"x" * 10, b"after\n"]),
        (b"x" * 9 + b"\nafter\n", [b"x" * 9 + b"\n", b"after\n"]),
    ],
)
def test_lines_are_messages_and_a_long_one_is_cut(given, expected):
    assert list(lines_of(io.BytesIO(given), most=10)) == expected


async def conversation(client, plane):
    """Every tool once, and what is refused."""
    listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == [tool.name for tool in TOOLS]
    assert all(tool.annotations.read_only_hint for tool in listed.tools)
    found = {}
    for name, arguments in (
        ("fleet_status", {}),
        ("top", {"namespace": "default"}),
        ("cost", {}),
        ("trace", {"kind": "modeldeployment", "name": "qwen3-8b"}),
        ("explain", {"deployment": "qwen3-8b"}),
        ("explain_cluster", {"cluster": "east"}),
        ("events", {"type": "Normal"}),
        ("plan", {"manifests": MANIFESTS.replace("replicas: 2", "replicas: 3")}),
        ("simulate", {"manifests": MANIFESTS, "steps": ["60 lose cluster east"], "seconds": 120}),
    ):
        called = await client.call_tool(name, arguments)
        assert not called.is_error, called.content
        found[name] = called.structured_content
    assert {row["name"] for row in found["fleet_status"]["deployments"]} == {"qwen3-8b"}
    assert [row["name"] for row in found["top"]["deployments"]] == ["qwen3-8b"]
    assert [row["namespace"] for row in found["cost"]["teams"]] == ["default"]
    assert found["trace"]["name"] == "qwen3-8b"
    assert found["explain"]["deployment"] == "default/qwen3-8b"
    assert found["explain_cluster"]["cluster"] == "east"
    assert {event["type"] for event in found["events"]["items"]} == {"Normal"}
    assert found["plan"]["answer"] in {"FitsNow", "FitsAfterScaleUp"}
    assert any("east" in text for _, text in found["simulate"]["story"])
    (deployment,) = (item for item in plane.store.list("modelplane.ai", "ModelDeployment"))
    assert deployment["spec"]["replicas"] == 2  # the plan was not applied

    for name, arguments, problem in (
        ("explain", {"deployment": "none"}, "there is no ModelDeployment none"),
        ("explain", {"deployment": "--help"}, "no such name"),
        ("plan", {"manifests": MANIFESTS.replace("replicas: 2", "replicas: many")}, "manifests.yaml:"),
    ):
        refused = await client.call_tool(name, arguments)
        assert refused.is_error
        assert problem in refused.content[0].text
        assert "/modelplane-mcp-" not in refused.content[0].text


async def talk(data, mode):
    mcp = pytest.importorskip("mcp", reason="the official client is not installed")
    words = ["-m", "modelplane", "mcp", "--data", str(data)]
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    async with Plane(PlaneSettings(data=data, engine_speed=50)) as plane:
        plane.apply(read_documents([EXAMPLES]))
        server = mcp.StdioServerParameters(command=sys.executable, args=words, env=environment)
        async with mcp.Client(server, mode=mode) as client:
            await conversation(client, plane)
            return client.protocol_version


@pytest.mark.submission
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "version"),
    [("auto", VERSIONS[0]), ("legacy", HANDSHAKE_VERSIONS[0])],
)
def test_the_official_client_reads_a_fleet(tmp_path, mode, version):
    assert asyncio.run(talk(tmp_path, mode)) == version
