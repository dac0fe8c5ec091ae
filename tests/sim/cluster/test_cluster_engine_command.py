"""Which engine a container runs, and with which arguments."""

import pytest

from modelplane.sim.cluster.engine_command import EngineCommand, engine_command

VLLM_IMAGE = "vllm/vllm-openai:v0.27.1"
PROGRAM = 'import os, sys\nos.execvp("vllm", ["vllm", "serve", *sys.argv[2:], "--headless"])\n'


def vllm(*arguments):
    return EngineCommand("vllm", arguments)


@pytest.mark.parametrize(
    ("case", "container", "expected"),
    [
        ("the image's own", {"image": VLLM_IMAGE, "args": ["m", "--port", "1"]}, vllm("m", "--port", "1")),
        ("with serve", {"image": VLLM_IMAGE, "args": ["serve", "m"]}, vllm("m")),
        ("a mirror", {"image": "r.example:5000/x/vllm-openai@sha256:0", "args": ["m"]}, vllm("m")),
        ("command", {"image": "a", "command": ["vllm", "serve"], "args": ["m", "--a"]}, vllm("m", "--a")),
        ("by path", {"image": "a", "command": ["/usr/bin/vllm", "serve", "m"]}, vllm("m")),
        (
            "module",
            {"image": "a", "command": ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"]},
            vllm("--model", "m"),
        ),
        ("a program of ours", {"image": "a", "command": ["python3", "-c", PROGRAM, "8", "m"]}, vllm("8", "m")),
        (
            "a script",
            {"image": "a", "command": ["sh", "-c"], "args": ["exec vllm serve m --a 'b c' # why"]},
            vllm("m", "--a", "b c"),
        ),
        (
            "a script of several commands",
            {"image": "a", "command": ["bash", "-ec", "ray start --head\nvllm serve m \\\n --a && sleep 1"]},
            vllm("m", "--a"),
        ),
        ("a script that cannot be read", {"image": "a", "command": ["sh", "-c", "vllm serve 'm"]}, None),
        (
            "SGLang",
            {
                "image": "lmsysorg/sglang:v1",
                "command": ["python3", "-m", "sglang.launch_server"],
                "args": ["--tp", "2"],
            },
            EngineCommand("sglang", ("--tp", "2")),
        ),
        ("SGLang without a command", {"image": "lmsysorg/sglang:v1", "args": ["--tp", "2"]}, None),
        ("another program", {"image": VLLM_IMAGE, "command": ["python", "server.py"], "args": ["--x"]}, None),
        ("another image", {"image": "acme/engine:1", "args": ["--x"]}, None),
        ("nothing", {}, None),
    ],
)
def test_what_a_container_runs(case, container, expected):
    assert engine_command(container) == expected, case
