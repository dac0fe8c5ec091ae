"""Clients that users have, through genuine Envoy Gateway and the fleet router: openai, anthropic, litellm, curl.

litellm pins versions of openai and huggingface_hub that are older than those of the development environment, so it runs
in an environment of its own: `MODELPLANE_LITELLM_PYTHON` names its Python. Without it the step says that litellm was
left out.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import anthropic
import openai

from lab.e2e.services import KEY, MODEL, open_door
from lab.e2e.steps import expect

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from anthropic.types import MessageParam
    from openai.types.chat import ChatCompletionMessageParam

    from lab.e2e.services import Door
    from lab.e2e.world import World

LITELLM_PYTHON = "MODELPLANE_LITELLM_PYTHON"
_TEXT = "hello"
_MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": _TEXT}]
_TOKENS = 4
_WITHIN_S = 60.0
_LITELLM = """
import json, sys
import litellm
model, base, key = sys.argv[1:]
given = {"api_key": key, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, "num_retries": 0}
plain = litellm.completion(model=f"openai/{model}", api_base=f"{base}/v1", **given)
chunks = [each for each in litellm.completion(model=f"openai/{model}", api_base=f"{base}/v1", stream=True, **given)]
other = litellm.completion(model=f"anthropic/{model}", api_base=f"{base}/anthropic", **given)
print(json.dumps([bool(plain.choices[0].message.content), len(chunks) > 1, bool(other.choices[0].message.content)]))
"""


async def clients(world: World) -> str:
    """Each client talks and streams by the model's name, and gets its own error for a wrong key and a wrong model."""
    async with open_door(world) as door:
        await _openai(door)
        await _anthropic(door)
        await _curl(door)
        by_litellm = await _litellm(door)
    return f"openai {openai.__version__}, anthropic {anthropic.__version__}, curl, {by_litellm}"


async def _openai(door: Door) -> None:
    async with openai.AsyncOpenAI(base_url=f"{door.base}/v1", api_key=KEY, max_retries=0) as client:
        made = await client.chat.completions.create(model=MODEL, messages=_MESSAGES, max_tokens=_TOKENS)
        expect(bool(made.choices[0].message.content), f"openai got {made}")
        stream = await client.chat.completions.create(model=MODEL, messages=_MESSAGES, max_tokens=_TOKENS, stream=True)
        chunks = [chunk async for chunk in stream]
        expect(len(chunks) > 1, f"openai got a stream of {len(chunks)} chunks")
        listed = [model.id async for model in client.models.list()]
        expect(MODEL in listed, f"openai lists {listed}")
        unknown = client.chat.completions.create(model="nobody/nothing", messages=_MESSAGES)
        expect(await _raises(unknown, openai.NotFoundError), "openai got no 404 for a model that nobody declares")
    async with openai.AsyncOpenAI(base_url=f"{door.base}/v1", api_key="wrong", max_retries=0) as client:
        called = client.chat.completions.create(model=MODEL, messages=_MESSAGES)
        expect(await _raises(called, openai.AuthenticationError), "openai got no 401 with a wrong key")


async def _anthropic(door: Door) -> None:
    async with anthropic.AsyncAnthropic(base_url=f"{door.base}/anthropic", api_key=KEY, max_retries=0) as client:
        said: list[MessageParam] = [{"role": "user", "content": _TEXT}]
        made = await client.messages.create(model=MODEL, messages=said, max_tokens=_TOKENS)
        expect(made.content, f"anthropic got {made}")
        async with client.messages.stream(model=MODEL, messages=said, max_tokens=_TOKENS) as stream:
            words = [word async for word in stream.text_stream]
        expect(bool(words), "anthropic got an empty stream")
        unknown = client.messages.create(model="nobody/nothing", messages=said, max_tokens=_TOKENS)
        expect(await _raises(unknown, anthropic.NotFoundError), "anthropic got no 404 for a model that nobody declares")


async def _raises(call: Awaitable[object], error: type[Exception]) -> bool:
    try:
        await call
    except error:
        return True
    return False


async def _curl(door: Door) -> None:
    body = json.dumps({"model": MODEL, "messages": _MESSAGES, "max_tokens": _TOKENS})
    words = ("curl", "-sS", "--fail-with-body", "-H", f"authorization: Bearer {KEY}")
    data = ("-H", "content-type: application/json", "-d", body)
    for path in ("/v1/chat/completions", f"/{MODEL}/v1/chat/completions"):
        said = await _ran(*words, *data, f"{door.base}{path}")
        expect(bool(json.loads(said)["choices"]), f"curl got {said[:200]}")


async def _litellm(door: Door) -> str:
    python = os.environ.get(LITELLM_PYTHON)
    if python is None:
        return f"litellm left out: {LITELLM_PYTHON} names no Python that has it"
    said = await _ran(python, "-c", _LITELLM, MODEL, door.base, KEY)
    expect(json.loads(said.splitlines()[-1]) == [True, True, True], f"litellm got {said[-300:]}")
    return f"litellm {(await _ran(python, '-c', _VERSION)).strip()}"


_VERSION = "from importlib.metadata import version; print(version('litellm'))"


async def _ran(*command: str) -> str:
    """What it wrote. Its last words where it failed."""
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment
    )
    said, complained = await asyncio.wait_for(process.communicate(), _WITHIN_S)
    expect(process.returncode == 0, f"{command[0]}: {said.decode()[-300:]} {complained.decode()[-500:]}")
    return said.decode()
