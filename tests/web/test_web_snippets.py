"""Requests to paste: what a shell and Python read in them is what was meant, whatever the names are."""

import ast
import json
import shlex

import pytest

from modelplane.web.snippets import client_snippets
from tests.support.hostile_texts import HOSTILE


@pytest.mark.parametrize("text", ["qwen3-8b", "it's", *HOSTILE], ids=ascii)
def test_names_are_quoted(text):
    curl, python = client_snippets(f"http://h/{text}", text)
    words = shlex.split("\n".join(curl.lines).replace("\\\n", ""))
    assert words[:3] == ["curl", "-N", f"http://h/{text}/v1/chat/completions"]
    assert json.loads(words[-1])["model"] == text
    values = {node.value for node in ast.walk(ast.parse("\n".join(python.lines))) if isinstance(node, ast.Constant)}
    assert values >= {f"http://h/{text}/v1", text}
