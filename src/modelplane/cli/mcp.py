"""`modelplane mcp`: the fleet for assistants, over the Model Context Protocol on standard input and output."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from modelplane.cli._formats import add_plane

if TYPE_CHECKING:
    from modelplane.cli._mcp_session import ToolOutput
    from modelplane.cli._mcp_tools import Arguments, McpTool

_EPILOG = """\
examples:
  modelplane mcp                                  the plane of this machine
  modelplane mcp --data ./plane
  modelplane mcp --kubeconfig ~/.kube/config      any control plane, with the rights of that file

An assistant starts it, as `{"command": "modelplane", "args": ["mcp"]}` in its list of MCP servers. Tools: fleet_status,
top, cost, trace, explain, explain_cluster, events, plan, simulate. Each is the command of this name with JSON for
output. None changes anything.
"""
_MOST_LINE: Final = 4 << 20
_MOST_OUTPUT: Final = 400_000
_CALL_S: Final = 120.0
_DONE: Final = frozenset({0, 3})
"""3: something is not ready, or does not fit. That is an answer, and no failure."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Serves read-only tools of a fleet to an assistant, over standard input and output."
    parser.epilog = _EPILOG
    add_plane(parser)


def run(arguments: argparse.Namespace) -> int:
    from modelplane.cli._mcp_session import McpSession
    from modelplane.cli._mcp_tools import TOOLS

    where = ("--kubeconfig", arguments.kubeconfig) if arguments.kubeconfig is not None else ("--data", arguments.data)
    words = (where[0], str(Path(where[1]).absolute()))
    if sys.stdin.isatty():
        print("an assistant starts this and speaks MCP to it; Ctrl-D ends it", file=sys.stderr)
    session = McpSession(TOOLS, lambda tool, given: call_tool(tool, given, words))
    for line in lines_of(sys.stdin.buffer):
        response = session.answer(line)
        if response is not None:
            sys.stdout.buffer.write(response)
            sys.stdout.buffer.flush()
    return 0


def lines_of(stream: IO[bytes], most: int = _MOST_LINE) -> Iterator[bytes]:
    """The messages of a client, until it closes the stream. Of a line that is too long only the beginning is kept."""
    while line := stream.readline(most):
        rest = line
        while len(rest) == most and not rest.endswith(b"\n"):
            rest = stream.readline(most)
        if line.strip():
            yield line


def call_tool(tool: "McpTool", arguments: "Arguments", where: Sequence[str]) -> "ToolOutput":
    """Run the command of a tool as a process of its own: it has a time limit, and can neither read nor write ours."""
    from modelplane.cli._mcp_session import ToolOutput
    from modelplane.cli._mcp_tools import command_line

    with tempfile.TemporaryDirectory(prefix="modelplane-mcp-") as folder:
        words = command_line(tool, arguments, where, Path(folder))
        command = [sys.executable, "-P", "-m", "modelplane", *words]  # -P: not from the client's folder
        try:
            done = subprocess.run(  # noqa: S603  our own program
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_CALL_S, check=False
            )
        except subprocess.TimeoutExpired:
            return ToolOutput(f"{tool.name} took longer than {_CALL_S:g} s", failed=True)
    return _output(done.returncode, *(text.replace(f"{folder}/", "").strip() for text in (done.stdout, done.stderr)))


def _output(code: int, text: str, errors: str) -> "ToolOutput":
    from modelplane.cli._mcp_session import ToolOutput
    from modelplane.cli._mcp_tools import structured

    if code not in _DONE or not text:
        return ToolOutput(errors or text or f"exit code {code}", failed=True)
    if len(text) > _MOST_OUTPUT:
        left_out = len(text) - _MOST_OUTPUT
        return ToolOutput(f"{text[:_MOST_OUTPUT]}\n{left_out} characters are left out; ask for one namespace or object")
    return ToolOutput(text, structured(text))
