"""The fields of each API's bodies as types: msgspec decodes into them, `bodies` and `text` read them.

They name only what is needed; of the rest of a body it is checked that it is JSON.
"""

from typing import Final

import msgspec

Number = int | float | None
ABSENT: Final = msgspec.Raw()


class Part(msgspec.Struct):
    """A part of a message's content: text, or other content that is compared by its bytes."""

    type: str = "text"
    text: str | None = None
    image_url: msgspec.Raw = ABSENT
    audio_url: msgspec.Raw = ABSENT
    video_url: msgspec.Raw = ABSENT
    input_audio: msgspec.Raw = ABSENT
    source: msgspec.Raw = ABSENT
    content: msgspec.Raw = ABSENT
    input: msgspec.Raw = ABSENT
    thinking: str | None = None
    refusal: str | None = None


Content = str | list[Part] | None


class PromptMessage(msgspec.Struct):
    """One turn of a conversation."""

    role: str = ""
    content: Content = None
    tool_calls: msgspec.Raw = ABSENT
    type: str = ""
    arguments: str | None = None
    output: msgspec.Raw = ABSENT


Prompt = str | list[str | int | list[int]] | None


class Common(msgspec.Struct):
    model: str | None = None
    stream: bool | None = None
    max_tokens: Number = None
    cache_salt: str | None = None


class Chat(Common):
    messages: list[PromptMessage] = msgspec.field(default_factory=list)
    tools: msgspec.Raw = ABSENT
    max_completion_tokens: Number = None


class Completions(Common):
    prompt: Prompt = None


class Responses(Common):
    input: str | list[PromptMessage] | None = None
    instructions: Content = None
    tools: msgspec.Raw = ABSENT
    max_output_tokens: Number = None


class Embeddings(Common):
    input: Prompt = None
    messages: list[PromptMessage] = msgspec.field(default_factory=list)


class Messages(Common):
    messages: list[PromptMessage] = msgspec.field(default_factory=list)
    system: Content = None
    tools: msgspec.Raw = ABSENT


class Sampling(msgspec.Struct):
    max_tokens: Number = None
    max_new_tokens: Number = None


class Generate(Common):
    token_ids: Prompt = None
    input_ids: Prompt = None
    text: Prompt = None
    prompt: Prompt = None
    sampling_params: Sampling | None = None
    features: msgspec.Raw = ABSENT
