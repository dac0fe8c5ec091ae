"""A file of endpoints, and what happens when it changes."""

import asyncio

import pytest

from modelplane.api.errors import InputError
from modelplane.epp.datalayer.discovery.datastore import DiscoveredEndpoint
from modelplane.epp.datalayer.discovery.endpoints_file import FileEndpoints, read_endpoints
from tests.support.waiting import until

ECOSYSTEM = b"""
endpoints:
  - name: vllm-0
    address: "10.0.0.1"
    port: "8000"
  - name: vllm-1
    namespace: team
    address: "10.0.0.2"
    port: "8001"
    labels: {llm-d.ai/role: decode}
"""

OURS = b"""
endpoints:
- {name: six, address: "fd00::1", port: 8000, attributes: {price-per-hour: 2}}
- {name: many, address: models.example, ports: [8000, "8001"]}
"""


def test_the_form_of_the_ecosystem():
    listed = read_endpoints(ECOSYSTEM, "f.yaml")
    assert dict(listed.entries) == {
        "default/vllm-0": (DiscoveredEndpoint("default/vllm-0", "10.0.0.1:8000"),),
        "team/vllm-1": (DiscoveredEndpoint("team/vllm-1", "10.0.0.2:8001", labels={"llm-d.ai/role": "decode"}),),
    }
    assert dict(listed.wrong) == {}


def test_a_little_more():
    assert dict(read_endpoints(OURS, "f.yaml").entries) == {
        "default/six": (DiscoveredEndpoint("default/six", "[fd00::1]:8000", attributes={"price-per-hour": 2.0}),),
        "default/many": (
            DiscoveredEndpoint("default/many:8000", "models.example:8000"),
            DiscoveredEndpoint("default/many:8001", "models.example:8001"),
        ),
    }


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{name: a, address: 10.0.0.1, port: 0}", "port: 0 is not in 1 to 65535"),
        ("{name: a, address: 10.0.0.1, port: '65536'}", "port: '65536' is not in"),
        ("{name: a, address: 10.0.0.1, port: x}", "port: 'x' is not in"),
        ("{name: a, address: 10.0.0.999, port: 1}", "address: '10.0.0.999' is neither"),
        ("{name: a, address: 'a b', port: 1}", "address: 'a b' is neither"),
        ("{name: a, address: 10.0.0.1}", "needs a name, and either a port or 1 to 8 ports"),
        ("{name: a, address: 10.0.0.1, port: 1, ports: [2]}", "needs a name, and either"),
        ("{name: '', address: 10.0.0.1, port: 1}", "needs a name"),
        ("{address: 10.0.0.1, port: 1}", "missing required field `name`"),
        ("{name: a, address: 10.0.0.1, port: 1, prot: 2}", "unknown field `prot`"),
        ("{name: good, address: 10.0.0.1, port: 1}", "default/good is listed twice"),
        ("7", "Expected `object`"),
    ],
)
def test_a_wrong_entry_is_named_and_the_others_are_taken(entry, problem):
    listed = read_endpoints(f"endpoints:\n- {{name: good, address: 10.0.0.9, port: 1}}\n- {entry}\n".encode(), "f.yaml")
    assert dict(listed.entries) == {"default/good": (DiscoveredEndpoint("default/good", "10.0.0.9:1"),)}
    (said,) = listed.wrong.values()
    assert said.startswith("f.yaml:3: endpoints[1]: ")
    assert problem in said


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"endpoints: 7",
        b"endpoint: []",
        b"endpoints: []\nother: 1",
        b"endpoints: []\n---\nendpoints: []",
        b"a: &a 1\nb: *a",
        b"\xff",
        b"#" * (1024 * 1024 + 1),
    ],
)
def test_files_of_which_nothing_can_be_used(text):
    with pytest.raises(InputError, match=r"f\.yaml"):
        read_endpoints(text, "f.yaml")


def test_the_file_is_followed_and_the_last_good_one_is_kept(tmp_path):
    async def main():
        path = tmp_path / "endpoints.yaml"
        source = FileEndpoints(path, every_s=0.01)
        await source.start()
        assert (source.known, source.problem) == (False, "endpoints.yaml: No such file or directory")
        path.write_bytes(ECOSYSTEM)
        await until(lambda: source.known)
        first, second = source.current
        assert (first.address, second.address, source.problem) == ("10.0.0.1:8000", "10.0.0.2:8001", "")
        path.write_bytes(b"endpoints: 7")
        await until(lambda: source.problem)
        assert source.current == (first, second)
        path.write_bytes(ECOSYSTEM.replace(b'"10.0.0.1"', b'"10.0.0"').replace(b'"8001"', b'"9001"'))
        await until(lambda: "endpoints[0]: address" in source.problem)
        kept, moved = source.current
        assert kept is first
        assert moved.address == "10.0.0.2:9001"
        path.unlink()
        await until(lambda: "No such file" in source.problem)
        assert len(source.current) == 2
        replaced = tmp_path / "new.yaml"
        replaced.write_bytes(b"endpoints: []")
        replaced.rename(path)
        await until(lambda: not source.current)
        assert (source.known, source.problem) == (True, "")
        await source.stop()

    asyncio.run(main())


def test_without_watching_it_is_read_once(tmp_path):
    async def main():
        path = tmp_path / "endpoints.yaml"
        path.write_bytes(OURS)
        source = FileEndpoints(path, watch=False)
        await source.start()
        assert [endpoint.name for endpoint in source.current] == [
            "default/many:8000",
            "default/many:8001",
            "default/six",
        ]
        assert len(asyncio.all_tasks()) == 1
        await source.stop()

    asyncio.run(main())
