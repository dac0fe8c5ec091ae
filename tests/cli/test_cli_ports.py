"""Which ports the next plane on a folder takes."""

import socket

import pytest

from modelplane.cli.ports import Ports, page_token


def free():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_port_is_taken_again_unless_another_is_asked_for(tmp_path):
    port = free()
    Ports.of(tmp_path).remember(api=f"https://127.0.0.1:{port}", gateway="http://127.0.0.1:1")
    found = Ports.of(tmp_path)
    assert (found.again("api", 0), found.again("api", 7), found.again("page", 0)) == (port, 7, 0)


def test_a_port_that_somebody_has_is_not_taken_again(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        Ports.of(tmp_path).remember(api=f"https://127.0.0.1:{taken.getsockname()[1]}")
        assert Ports.of(tmp_path).again("api", 0) == 0


@pytest.mark.parametrize("text", ["", "[1]", '{"api": "80"}', '{"api": 70000}', "{"])
def test_what_makes_no_sense_is_no_port(tmp_path, text):
    (tmp_path / "ports.json").write_text(text)
    assert Ports.of(tmp_path).again("api", 0) == 0


def test_the_token_of_the_page_is_made_once_and_for_its_owner_only(tmp_path):
    token = page_token(tmp_path)
    assert page_token(tmp_path) == token
    assert (tmp_path / "page.token").stat().st_mode & 0o777 == 0o600
    (tmp_path / "page.token").write_text("short")
    assert page_token(tmp_path) not in {token, "short"}
