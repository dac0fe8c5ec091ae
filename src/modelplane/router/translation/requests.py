"""The body of a request, from one API into the other."""

from collections.abc import Iterator, Sequence
from typing import Final

from modelplane.router.translation.values import (
    Json,
    TranslationError,
    copied,
    decode_object,
    encode,
    object_at,
    objects,
    parsed_arguments,
    text_of,
)

DEFAULT_MAX_TOKENS: Final = 4096
"""Anthropic requires a limit and OpenAI does not."""
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
_TO_ANTHROPIC: Final = {"auto": "auto", "required": "any", "none": "none"}
_DATA_URL: Final = "data:"


def to_openai(body: bytes, model: str) -> bytes:
    """A request of Anthropic's messages as one of OpenAI's chat completions."""
    given = decode_object(body)
    made: Json = {"model": model, "messages": [*_system(given), *_openai_messages(given)]}
    made |= copied(given, ("temperature", "top_p", "stream", "max_tokens"))
    if given.get("stop_sequences"):
        made["stop"] = given["stop_sequences"]
    if given.get("stream"):
        made["stream_options"] = {"include_usage": True}
    tools = [_openai_tool(tool) for tool in objects(given.get("tools"))]
    if tools:
        made["tools"] = tools
    made |= _openai_choice(object_at(given, "tool_choice"))
    return encode(made)


def to_anthropic(body: bytes, model: str) -> bytes:
    """A request of OpenAI's chat completions as one of Anthropic's messages."""
    given = decode_object(body)
    several = given.get("n")
    if isinstance(several, int) and several > 1:
        raise TranslationError(f"n is {several}; the model's provider returns one choice")
    messages = objects(given.get("messages"))
    made: Json = {"model": model, "messages": list(_joined(_anthropic_messages(messages)))}
    made["max_tokens"] = given.get("max_completion_tokens") or given.get("max_tokens") or DEFAULT_MAX_TOKENS
    made |= copied(given, ("temperature", "top_p", "stream"))
    system = "\n\n".join(_plain(message) for message in messages if _is_system(message))
    if system:
        made["system"] = system
    stop = given.get("stop")
    if stop:
        made["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    tools = [_anthropic_tool(tool) for tool in objects(given.get("tools"))]
    if tools:
        made["tools"] = tools
    return encode(made | _anthropic_choice(given))


def _system(given: Json) -> list[Json]:
    system = given.get("system")
    text = system if isinstance(system, str) else "\n\n".join(text_of(part, "text") for part in objects(system))
    return [{"role": "system", "content": text}] if text else []


def _openai_messages(given: Json) -> Iterator[Json]:
    for message in objects(given.get("messages")):
        content = message.get("content")
        if isinstance(content, str):
            yield {"role": text_of(message, "role"), "content": content}
        elif text_of(message, "role") == "assistant":
            yield _assistant(objects(content))
        else:
            yield from _user(objects(content))


def _assistant(blocks: Sequence[Json]) -> Json:
    text = "".join(text_of(block, "text") for block in blocks if block.get("type") == "text")
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    made: Json = {"role": "assistant", "content": text or None}
    return made | {"tool_calls": calls} if calls else made


def _call(block: Json) -> Json:
    arguments = encode(block.get("input") or {}).decode()
    function = {"name": text_of(block, "name"), "arguments": arguments}
    return {"id": text_of(block, "id"), "type": "function", "function": function}


def _user(blocks: Sequence[Json]) -> Iterator[Json]:
    """Results of tools are messages of their own, before what the user says."""
    for block in blocks:
        if block.get("type") == "tool_result":
            yield {"role": "tool", "tool_call_id": text_of(block, "tool_use_id"), "content": _result(block)}
    parts = [_openai_part(block) for block in blocks if block.get("type") in {"text", "image"}]
    if len(parts) == 1 and parts[0]["type"] == "text":
        yield {"role": "user", "content": parts[0]["text"]}
    elif parts:
        yield {"role": "user", "content": parts}


def _result(block: Json) -> str:
    content = block.get("content")
    return content if isinstance(content, str) else "".join(text_of(part, "text") for part in objects(content))


def _openai_part(block: Json) -> Json:
    if block.get("type") == "text":
        return {"type": "text", "text": text_of(block, "text")}
    source = object_at(block, "source")
    if source.get("type") == "url":
        return {"type": "image_url", "image_url": {"url": text_of(source, "url")}}
    url = f"{_DATA_URL}{text_of(source, 'media_type')};base64,{text_of(source, 'data')}"
    return {"type": "image_url", "image_url": {"url": url}}


def _openai_tool(tool: Json) -> Json:
    function = copied(tool, ("name", "description"))
    return {"type": "function", "function": function | {"parameters": tool.get("input_schema") or {"type": "object"}}}


def _openai_choice(choice: Json) -> Json:
    kind = text_of(choice, "type")
    if not kind:
        return {}
    if kind == "tool":
        made: Json = {"tool_choice": {"type": "function", "function": {"name": text_of(choice, "name")}}}
    else:
        made = {"tool_choice": _CHOICES.get(kind, "auto")}
    return made | {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") is True else made


def _is_system(message: Json) -> bool:
    return message.get("role") in {"system", "developer"}


def _plain(message: Json) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "".join(text_of(part, "text") for part in objects(content))


def _anthropic_messages(messages: Sequence[Json]) -> Iterator[tuple[str, list[Json]]]:
    for message in messages:
        match text_of(message, "role"):
            case "system" | "developer":
                continue
            case "assistant":
                yield "assistant", _assistant_blocks(message)
            case "tool":
                result: Json = {"type": "tool_result", "tool_use_id": text_of(message, "tool_call_id")}
                yield "user", [result | {"content": _plain(message)}]
            case _:
                yield "user", _user_blocks(message)


def _joined(turns: Iterator[tuple[str, list[Json]]]) -> Iterator[Json]:
    """Turns of one role in a row are one message: Anthropic's roles alternate."""
    role, blocks = "", []
    for each, more in turns:
        if each == role:
            blocks.extend(more)
            continue
        if blocks:
            yield {"role": role, "content": blocks}
        role, blocks = each, list(more)
    if blocks:
        yield {"role": role, "content": blocks}


def _assistant_blocks(message: Json) -> list[Json]:
    text = _plain(message)
    blocks: list[Json] = [{"type": "text", "text": text}] if text else []
    for call in objects(message.get("tool_calls")):
        function = object_at(call, "function")
        used = {"type": "tool_use", "id": text_of(call, "id"), "name": text_of(function, "name")}
        blocks.append(used | {"input": parsed_arguments(text_of(function, "arguments"))})
    return blocks


def _user_blocks(message: Json) -> list[Json]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_anthropic_part(part) for part in objects(content)]


def _anthropic_part(part: Json) -> Json:
    kind = text_of(part, "type")
    if kind == "text":
        return {"type": "text", "text": text_of(part, "text")}
    if kind != "image_url":
        raise TranslationError(f"a message has a part of type {kind!r}, which the model's provider does not take")
    url = text_of(object_at(part, "image_url"), "url")
    if not url.startswith(_DATA_URL):
        return {"type": "image", "source": {"type": "url", "url": url}}
    head, _, data = url.removeprefix(_DATA_URL).partition(",")
    media = head.partition(";")[0]
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}


def _anthropic_tool(tool: Json) -> Json:
    function = object_at(tool, "function")
    made = copied(function, ("name", "description"))
    return made | {"input_schema": function.get("parameters") or {"type": "object", "properties": {}}}


def _anthropic_choice(given: Json) -> Json:
    choice = given.get("tool_choice")
    made: Json = {}
    if isinstance(choice, str):
        made = {"type": _TO_ANTHROPIC.get(choice, "auto")}
    elif isinstance(choice, dict):
        made = {"type": "tool", "name": text_of(object_at(choice, "function"), "name")}
    if given.get("parallel_tool_calls") is False and given.get("tools"):
        made = (made or {"type": "auto"}) | {"disable_parallel_tool_use": True}
    return {"tool_choice": made} if made else {}
