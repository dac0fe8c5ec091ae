"""The page for assistants lists exactly the tools and arguments of the code."""

from pathlib import Path

from modelplane.cli._mcp_tools import TOOLS

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "mcp.md").read_text()


def test_the_page_lists_every_tool_with_its_arguments():
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| `")]
    shown = {name.strip("`"): tuple(word.strip("`") for word in words.split(", ")) for name, words, _ in rows}
    assert shown == {tool.name: tuple(tool.properties) for tool in TOOLS}
