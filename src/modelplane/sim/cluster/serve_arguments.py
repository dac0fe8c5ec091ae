"""What an engine would read from the command line of its container: vLLM's options, and those of SGLang that match.

Options that a simulated engine has no use for are ignored; `engine_exits` refuses those that the engine does not have.
A value that cannot be read is an error here as there.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from modelplane.api.errors import InputError
from modelplane.api.objects import Manifest, value_at
from modelplane.sim.cluster.pod_status import engine_container
from modelplane.sim.engine import Adapter, KvRole, KvTransfer
from modelplane.sim.engine.hardware import MEMORY_SHARE

_Flags = Mapping[str, Sequence[str]]

_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_ROLES: tuple[KvRole, ...] = ("kv_producer", "kv_consumer", "kv_both")

_NUMBERS = {
    "max_model_len": ("--max-model-len", "--context-length"),
    "max_num_seqs": ("--max-num-seqs", "--max-running-requests"),
    "max_num_batched_tokens": ("--max-num-batched-tokens", "--chunked-prefill-size"),
    "block_size": ("--block-size", "--page-size"),
}
_TENSOR_PARALLEL = ("--tensor-parallel-size", "-tp", "--tp-size", "--tp")
_PIPELINE_PARALLEL = ("--pipeline-parallel-size", "-pp", "--pp-size", "--pp")
_DATA_PARALLEL = ("--data-parallel-size", "-dp")
_SHORT = frozenset({"-tp", "-pp", "-dp", "-q"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArguments:
    """The options of a command line; None where absent.

    `models` are the served model names, `checkpoint` is the loaded model, whose name has the size.
    `memory_share` is the part of a GPU's memory to use.
    """

    models: tuple[str, ...]
    checkpoint: str = ""
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_size: int | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    quantization: str = ""
    dtype: str = ""
    memory_share: float = MEMORY_SHARE
    prefix_caching: bool = True
    max_loras: int = 0
    adapters: tuple[Adapter, ...] = ()
    runtime_lora: bool = False
    kv_transfer: KvTransfer | None = None
    kv_events: bool = False
    traces_endpoint: str = ""

    @classmethod
    def of(cls, pod: Manifest) -> "ServeArguments":
        container = engine_container(pod) or {}
        command = _words(container, "command")
        words = list(_unwrapped([*command, *_words(container, "args")]))
        flags = _flags(words)
        model = [*flags.get("--model", [])[:1], *flags.get("--model-path", [])[:1]]
        checkpoint = model or _positional(words, whole=not command)
        served = flags.get("--served-model-name") or checkpoint or [_image_name(str(container.get("image", "")))]
        numbers = {field: _first_number(names, flags) for field, names in _NUMBERS.items()}
        return cls(
            models=tuple(served),
            checkpoint=(checkpoint or served)[0],
            **numbers,
            tensor_parallel=_first_number(_TENSOR_PARALLEL, flags) or 1,
            pipeline_parallel=_first_number(_PIPELINE_PARALLEL, flags) or 1,
            data_parallel=_first_number(_DATA_PARALLEL, flags) or 1,
            quantization=_first_word(("--quantization", "-q"), flags),
            dtype=_first_word(("--dtype",), flags),
            memory_share=_share(flags),
            prefix_caching=not {"--no-enable-prefix-caching", "--disable-radix-cache"} & flags.keys(),
            max_loras=_max_loras(flags),
            adapters=tuple(map(_adapter, flags.get("--lora-modules", flags.get("--lora-paths", [])))),
            runtime_lora=_environment(container, "VLLM_ALLOW_RUNTIME_LORA_UPDATING").lower() in {"1", "true"},
            kv_transfer=_kv_transfer(_settings("--kv-transfer-config", flags)),
            traces_endpoint=_first_word(("--otlp-traces-endpoint",), flags),
            kv_events=_settings("--kv-events-config", flags).get("enable_kv_cache_events") is True,
        )

    def limits(self) -> dict[str, int]:
        """The numbers that were given."""
        given = {field: getattr(self, field) for field in _NUMBERS}
        return {field: value for field, value in given.items() if value is not None}


def _words(container: Mapping[str, object], field: str) -> list[str]:
    found = container.get(field)
    return [str(word) for word in found] if isinstance(found, list | tuple) else []


def _unwrapped(words: Sequence[str]) -> Iterator[str]:
    """The words of a command, with those of a shell script in place of the script."""
    for before, word in zip(["", *words], words, strict=False):
        if before.startswith("-") and before.endswith("c") and not before.startswith("--"):
            yield from shlex.split(word, comments=True)
        else:
            yield word


def _flags(words: Sequence[str]) -> dict[str, list[str]]:
    """Each option with the words that follow it, up to the next option."""
    flags: dict[str, list[str]] = {}
    values: list[str] = []
    for word in words:
        if word.startswith("--") or word in _SHORT:
            name, equals, value = word.partition("=")
            values = flags[name.replace("_", "-")] = [value] if equals else []
        else:
            values.append(word)
    return flags


def _positional(words: Sequence[str], *, whole: bool) -> list[str]:
    """The model after `serve`; first of all words where the image's own entry point is `vllm serve`."""
    first = words.index("serve") + 1 if "serve" in words else 0 if whole else len(words)
    return [word for word in words[first : first + 1] if not word.startswith("-")]


def _image_name(image: str) -> str:
    name = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return name or "model"


def _first_number(names: Sequence[str], flags: _Flags) -> int | None:
    return next((_number(name, flags[name]) for name in names if flags.get(name)), None)


def _first_word(names: Sequence[str], flags: _Flags) -> str:
    return next((flags[name][0] for name in names if flags.get(name)), "")


def _share(flags: _Flags) -> float:
    flag = "--gpu-memory-utilization"
    text = _first_word((flag, "--mem-fraction-static"), flags)
    try:
        return float(text) if text else MEMORY_SHARE
    except ValueError:
        raise InputError(f"{flag}: {text!r} is not a number") from None


def _number(flag: str, given: Sequence[str]) -> int:
    """A number as vLLM reads it: 32768, 32k (thousands) or 32K (of 1024)."""
    text = given[0]
    digits, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    try:
        return int(float(digits) * unit) if unit > 1 else int(digits)
    except ValueError:
        raise InputError(f"{flag}: {text!r} is not a number") from None


def _max_loras(flags: _Flags) -> int:
    if "--enable-lora" not in flags:
        return 0
    return _first_number(("--max-loras", "--max-loras-per-batch"), flags) or 1


def _adapter(text: str) -> Adapter:
    """`name=path`, or an object with both."""
    if text.startswith("{"):
        fields = _object("--lora-modules", text)
        name, path = str(fields.get("name", "")), str(fields.get("path", ""))
    else:
        name, _, path = text.partition("=")
    if not name or not path:
        raise InputError(f"--lora-modules: {text!r} is not name=path")
    return Adapter(name, path)


def _settings(flag: str, flags: _Flags) -> dict[str, object]:
    """An option that takes an object, as one value or with a field in its own name (`--flag.field value`)."""
    given = flags.get(flag)
    settings = _object(flag, given[0]) if given else {}
    for name, values in flags.items():
        if name.startswith(f"{flag}.") and values:
            settings[name.removeprefix(f"{flag}.").replace("-", "_")] = _plain(values[0])
    return settings


def _plain(text: str) -> object:
    try:
        value: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value


def _object(flag: str, text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError:
        raise InputError(f"{flag}: {text!r} is not a JSON object") from None


def _kv_transfer(settings: Mapping[str, object]) -> KvTransfer | None:
    if not settings.get("kv_connector"):
        return None
    role = next((known for known in _ROLES if known == settings.get("kv_role")), None)
    if role is None:
        raise InputError(f"--kv-transfer-config: kv_role: must be one of {', '.join(_ROLES)}")
    lease = value_at(settings, "kv_connector_extra_config", "kv_lease_duration")
    return KvTransfer(
        role=role,
        lease_s=float(lease) if isinstance(lease, int | float) else 30.0,
        recompute=settings.get("kv_load_failure_policy") == "recompute",
    )


def _environment(container: Mapping[str, object], name: str) -> str:
    entries = container.get("env")
    for entry in entries if isinstance(entries, list | tuple) else ():
        if isinstance(entry, Mapping) and entry.get("name") == name:
            return str(entry.get("value", ""))
    return ""
