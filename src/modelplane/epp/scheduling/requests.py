"""One inference request, independent of its API."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from modelplane.epp.scheduling.arithmetic import tokens_of
from modelplane.epp.scheduling.endpoints import NOTHING


class InferenceApi(StrEnum):
    """The API of a request, found by the longest matching suffix of its path."""

    CHAT = "chat/completions"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    EMBEDDINGS = "embeddings"
    MESSAGES = "messages"
    GENERATE = "generate"
    OTHER = "other"


class Parsed(msgspec.Struct, frozen=True):
    """The parsed fields of a body; what they mean: `Request`."""

    model: str = ""
    prompts: tuple[bytes, ...] = ()
    streaming: bool = False
    max_output_tokens: int = 0
    salt: str = ""
    has_media: bool = False


class Request(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The data of a request that plugins may read. Header names are lower case."""

    id: str
    model: str = ""
    """The model or adapter requested; empty where the API has none."""
    api: InferenceApi = InferenceApi.CHAT
    prompts: tuple[bytes, ...] = ()
    """The text that the server will read, one a prompt, in the order its tokens would have: equal beginnings of two
    requests are equal beginnings here."""
    headers: Mapping[str, str] = NOTHING
    priority: int = 0
    fairness_id: str = ""
    """The flow of the request, with its priority (`x-llm-d-inference-fairness-id`)."""
    size: int = 0
    """Bytes of the body."""
    max_output_tokens: int = 0
    """0: unknown."""
    streaming: bool = False
    salt: str = ""
    """Requests with different salts share no cache."""
    has_media: bool = False
    subset: tuple[str, ...] | None = None
    """Addresses that the proxy allows; None: all. Empty allows none."""
    ttft_goal_s: float = 0.0
    """The client's time to first token goal; 0: none."""
    tpot_goal_s: float = 0.0
    received_s: float = 0.0
    token_ids: tuple[tuple[int, ...], ...] = ()
    """The prompts tokenized by the server's tokenizer, where that was called."""

    @property
    def prompt_bytes(self) -> int:
        return sum(map(len, self.prompts))

    @property
    def tokens(self) -> int:
        return tokens_of(self.prompts, self.token_ids)
