"""One inference request, independent of its API."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

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


_CHAT: Final = InferenceApi.CHAT
_FIELDS: Final = (
    "id", "model", "api", "prompts", "headers", "priority", "fairness_id", "size", "max_output_tokens", "streaming",
    "salt", "has_media", "subset", "ttft_goal_s", "tpot_goal_s", "received_s", "token_ids",
)  # fmt: skip


class Request:
    """The data of a request that plugins may read. Header names are lower case.

    A plain class, as a `Decision` is one, and as constant.
    """

    __slots__ = _FIELDS

    def __init__(  # noqa: PLR0913, PLR0917  a record, written with names where it is long
        self,
        id: str,  # noqa: A002  as the API has it
        model: str = "",
        api: InferenceApi = _CHAT,
        prompts: tuple[bytes, ...] = (),
        headers: Mapping[str, str] = NOTHING,
        priority: int = 0,
        fairness_id: str = "",
        size: int = 0,
        max_output_tokens: int = 0,
        streaming: bool = False,  # noqa: FBT001, FBT002  as above
        salt: str = "",
        has_media: bool = False,  # noqa: FBT001, FBT002  as above
        subset: tuple[str, ...] | None = None,
        ttft_goal_s: float = 0.0,
        tpot_goal_s: float = 0.0,
        received_s: float = 0.0,
        token_ids: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        self.id: Final = id
        self.model: Final = model
        """The model or adapter requested; empty where the API has none."""
        self.api: Final = api
        self.prompts: Final = prompts
        """The text that the server will read, one a prompt, in the order its tokens would have: equal beginnings of two
        requests are equal beginnings here.
        """
        self.headers: Final = headers
        self.priority: Final = priority
        self.fairness_id: Final = fairness_id
        """The flow of the request, with its priority (`x-llm-d-inference-fairness-id`)."""
        self.size: Final = size
        """Bytes of the body."""
        self.max_output_tokens: Final = max_output_tokens
        """0: unknown."""
        self.streaming: Final = streaming
        self.salt: Final = salt
        """Requests with different salts share no cache."""
        self.has_media: Final = has_media
        self.subset: Final = subset
        """Addresses that the proxy allows; None: all. Empty allows none."""
        self.ttft_goal_s: Final = ttft_goal_s
        """The client's time to first token goal; 0: none."""
        self.tpot_goal_s: Final = tpot_goal_s
        self.received_s: Final = received_s
        self.token_ids: Final = token_ids
        """The prompts tokenized by the server's tokenizer, where that was called."""

    def changed(self, **fields: Any) -> "Request":  # noqa: ANN401  of the types that they have above
        """The same but for these fields."""
        return Request(**{name: getattr(self, name) for name in _FIELDS} | fields)

    @property
    def prompt_bytes(self) -> int:
        return sum(map(len, self.prompts))

    @property
    def tokens(self) -> int:
        return tokens_of(self.prompts, self.token_ids)

    def __repr__(self) -> str:
        return f"Request({', '.join(f'{name}={getattr(self, name)!r}' for name in _FIELDS)})"
