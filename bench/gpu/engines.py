"""vLLM engines that share one GPU: dummy weights in the shape of an 8B Llama; kernels, scheduler and caches are real.

One letter is one token: the tokenizer has the 256 bytes and no merges, and is made here. Nothing is downloaded.

    VLLM_PYTHON=… python -m gpu.engines FOLDER [COUNT|graphs]     # they run on after it; FOLDER has their logs
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

_PORT: Final = 8100
BLOCKS: Final = 2_816
"""Of 16 tokens: 45,056 tokens of KV cache an engine."""
_EVENTS_PORT: Final = 5600
_REPLAY_PORT: Final = 5700
_BLOCK_BYTES: Final = 2_097_152
_READY_S: Final = 300.0
_HEAD_START_S: Final = 40.0
_TOKENIZER: Final = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
letters = sorted(pre_tokenizers.ByteLevel.alphabet())
words = {letter: at for at, letter in enumerate(letters)}
special = ["<|bos|>", "<|eos|>", "<|user|>", "<|system|>", "<|assistant|>"]
for each in special: words[each] = len(words)
made = Tokenizer(models.BPE(vocab=words, merges=[]))
made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
made.decoder = decoders.ByteLevel()
made.add_special_tokens(special)
made.save(sys.argv[1])
"""
_CHAT: Final = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}<|assistant|>"
_TOKENIZER_CONFIG: Final = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<|bos|>",
    "eos_token": "<|eos|>",
    "model_max_length": 8192,
    "chat_template": _CHAT,
}
_MODEL_CONFIG: Final = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 256,
    "eos_token_id": 257,
}


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One server, by name: what it is started with beyond what all of them have."""

    name: str
    host: str
    port: int = _PORT
    model: Path
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def addresses(count: int) -> tuple[str, ...]:
    """One port on hosts of their own: a pool has one, so a picker that reads pods sees one engine otherwise."""
    return tuple(f"{_host(at)}:{_PORT}" for at in range(count))


def event_sockets(count: int) -> dict[str, tuple[int, int]]:
    """By host the ports of an engine's events and of their replay, at 127.0.0.1.

    Each engine has ports of its own. vLLM binds its socket only at all addresses (`tcp://*`), so engines that share a
    machine cannot have the same port, as pods have; `gpu.relays` makes it look so.
    """
    return {_host(at): (_EVENTS_PORT + at, _REPLAY_PORT + at) for at in range(count)}


def _host(at: int) -> str:
    return f"127.0.0.{at + 1}"


def start(folder: Path, count: int) -> None:
    """The first one has a head start: it compiles kernels that the others find."""
    model = make_model(folder, os.environ["VLLM_PYTHON"])
    engines = [whole_engine(model, at) for at in range(count)]
    started = [(engines[0], launch(folder, engines[0]))]
    with contextlib.suppress(TimeoutError):
        await_ready(*started[0], _HEAD_START_S)
    started += [(engine, launch(folder, engine)) for engine in engines[1:]]
    for engine, process in started:
        await_ready(engine, process)


def make_model(folder: Path, python: str) -> Path:
    model = folder / "model"
    make_tokenizer(model, python)
    (model / "config.json").write_text(json.dumps(_MODEL_CONFIG))
    return model


def make_tokenizer(model: Path, python: str) -> None:
    model.mkdir(parents=True, exist_ok=True)
    subprocess.run([python, "-c", _TOKENIZER, str(model / "tokenizer.json")], check=True)  # noqa: S603  our own program
    (model / "tokenizer_config.json").write_text(json.dumps(_TOKENIZER_CONFIG))


def cache_options(blocks: int, block_bytes: int, share: float = 0.2) -> tuple[str, ...]:
    """A KV cache of so many blocks, and so much of the GPU's memory free at the start.

    Where its size is given, vLLM does not measure what is left: that fails where another engine frees memory meanwhile.
    """
    size = ("--kv-cache-memory-bytes", str(blocks * block_bytes), "--num-gpu-blocks-override", str(blocks))
    return "--gpu-memory-utilization", str(share), *size


def whole_engine(model: Path, at: int) -> Engine:
    """One of those that policies are compared on: prefill and decode, KV events, a cache that is soon full."""
    events = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        # With a star vLLM binds the port; without, it connects and nobody hears it.
        "endpoint": f"tcp://*:{_EVENTS_PORT + at}",
        "replay_endpoint": f"tcp://*:{_REPLAY_PORT + at}",
        "topic": "kv-events",
    }
    return Engine(
        name=f"vllm-{at}",
        host=_host(at),
        model=model,
        options=(
            *("--load-format", "dummy", "--enforce-eager", *cache_options(BLOCKS, _BLOCK_BYTES)),
            *("--max-model-len", "8192", "--max-num-seqs", "64"),
            *("--kv-events-config", json.dumps(events)),
        ),
    )


def graph_engine(model: Path) -> Engine:
    """As users run it for speed, less what takes minutes to compile: steps of decode are CUDA graphs."""
    graphs = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32]}
    return Engine(
        name="graphs",
        host="127.0.3.1",
        model=model,
        options=(
            *("--load-format", "dummy", *cache_options(BLOCKS, _BLOCK_BYTES)),
            *("--max-model-len", "8192", "--max-num-seqs", "32", "--compilation-config", json.dumps(graphs)),
        ),
    )


def launch(folder: Path, engine: Engine) -> subprocess.Popen[bytes]:
    """In a session of its own. Its process is written down, so that others can end it."""
    environment = {
        **os.environ,
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "CUDA_VISIBLE_DEVICES": "0",
        **engine.environment,
    }
    words = [os.environ["VLLM_PYTHON"], "-m", "vllm.entrypoints.openai.api_server", "--model", str(engine.model)]
    words += ["--served-model-name", "demo", "--host", engine.host, "--port", str(engine.port)]
    words += ["--enable-prompt-tokens-details", *engine.options]
    with (folder / f"{engine.name}.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603  our own program
            words,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    (folder / f"{engine.name}.pid").write_text(str(process.pid))
    return process


def kill(folder: Path, name: str) -> None:
    """The server and all that it started, at once."""
    with contextlib.suppress(OSError):
        os.killpg(int((folder / f"{name}.pid").read_text()), signal.SIGKILL)


def await_ready(engine: Engine, process: subprocess.Popen[bytes], patience_s: float = _READY_S) -> float:
    """Seconds until it answered."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < patience_s:
        if process.poll() is not None:
            raise RuntimeError(f"{engine.name} ended with {process.returncode}; its log says why")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{engine.address}/health", timeout=2):
            print(f"{engine.name} serves after {passed:.0f} s", flush=True)
            return passed
        time.sleep(0.2)
    raise TimeoutError(f"{engine.name} does not serve after {patience_s:.0f} s")


def main() -> None:
    folder, which = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "4"  # noqa: PLR2004  the second argument
    folder.mkdir(parents=True, exist_ok=True)
    if which == "graphs":
        engine = graph_engine(make_model(folder, os.environ["VLLM_PYTHON"]))
        await_ready(engine, launch(folder, engine))
    else:
        start(folder, int(which))


if __name__ == "__main__":
    main()
