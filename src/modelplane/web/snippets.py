"""Requests to a service as people paste them: curl, and the openai client in Python."""

import json
import shlex

from modelplane.web.shapes import ClientSnippet

_PROMPT = "Say hello."


def client_snippets(address: str, model: str) -> tuple[ClientSnippet, ...]:
    """Values are quoted for the language that they are in."""
    return (_curl(address, model), _openai(address, model))


def _curl(address: str, model: str) -> ClientSnippet:
    body = {"model": model, "messages": [{"role": "user", "content": _PROMPT}], "stream": True}
    lines = (
        f"curl -N {shlex.quote(f'{address}/v1/chat/completions')} \\",
        "  -H 'Content-Type: application/json' \\",
        f"  -d {shlex.quote(json.dumps(body))}",
    )
    return ClientSnippet(title="curl", lines=lines)


def _openai(address: str, model: str) -> ClientSnippet:
    lines = (
        "from openai import OpenAI",
        "",
        f'client = OpenAI(base_url={json.dumps(f"{address}/v1")}, api_key="none")',
        "answer = client.chat.completions.create(",
        f"    model={json.dumps(model)},",
        f'    messages=[{{"role": "user", "content": {json.dumps(_PROMPT)}}}],',
        ")",
        "print(answer.choices[0].message.content)",
    )
    return ClientSnippet(title="Python", lines=lines)
