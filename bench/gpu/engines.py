"""vLLM engines that share one GPU: dummy weights in the shape of an 8B Llama; kernels, scheduler and caches are real.

One letter is one token: the tokenizer has the 256 bytes and no merges, and is made here. Nothing is downloaded.

    VLLM_PYTHON=… python -m gpu.engines FOLDER [COUNT]     # they run on after it
"""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_PORT: Final = 8100
BLOCKS: Final = 2_816
"""Of 16 tokens: 45,056 tokens of KV cache an engine."""
_EVENTS_PORT: Final = 5557
_READY_S: Final = 300.0
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


def addresses(count: int) -> tuple[str, ...]:
    """One port on hosts of their own: a pool has one, so a picker that reads pods sees one engine otherwise."""
    return tuple(f"{_host(at)}:{_PORT}" for at in range(count))


def _host(at: int) -> str:
    return f"127.0.0.{at + 1}"


def start(folder: Path, count: int) -> None:
    """The first one alone: it compiles kernels that the others find."""
    python = os.environ["VLLM_PYTHON"]
    model = make_model(folder, python)
    processes = [_engine(folder, model, python, 0)]
    _wait(processes[0], 0)
    processes += [_engine(folder, model, python, at) for at in range(1, count)]
    for at, process in enumerate(processes[1:], start=1):
        _wait(process, at)


def make_model(folder: Path, python: str) -> Path:
    model = folder / "model"
    model.mkdir(parents=True, exist_ok=True)
    subprocess.run([python, "-c", _TOKENIZER, str(model / "tokenizer.json")], check=True)  # noqa: S603  our own program
    (model / "tokenizer_config.json").write_text(json.dumps(_TOKENIZER_CONFIG))
    (model / "config.json").write_text(json.dumps(_MODEL_CONFIG))
    return model


def _engine(folder: Path, model: Path, python: str, at: int) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    with (folder / f"vllm-{at}.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603  our own program
            [python, "-m", "vllm.entrypoints.openai.api_server", *_options(model, at)],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _options(model: Path, at: int) -> Sequence[str]:
    events = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        # With a star vLLM binds the port; without, it connects and nobody hears it.
        "endpoint": f"tcp://*:{_EVENTS_PORT + at}",
        "replay_endpoint": f"tcp://*:{_EVENTS_PORT + 100 + at}",
        "topic": "kv-events",
    }
    return [
        *("--model", str(model), "--served-model-name", "demo", "--load-format", "dummy", "--enforce-eager"),
        *("--gpu-memory-utilization", "0.2", "--num-gpu-blocks-override", str(BLOCKS), "--max-model-len", "8192"),
        *("--max-num-seqs", "64", "--host", _host(at), "--port", str(_PORT), "--enable-prompt-tokens-details"),
        *("--kv-events-config", json.dumps(events)),
    ]


def _wait(process: subprocess.Popen[bytes], at: int) -> None:
    began = time.monotonic()
    while time.monotonic() - began < _READY_S:
        if process.poll() is not None:
            raise SystemExit(f"engine {at} ended with {process.returncode}; its log says why")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{addresses(at + 1)[at]}/health", timeout=2):
            print(f"engine {at} serves after {time.monotonic() - began:.0f} s", flush=True)
            return
        time.sleep(1)
    raise SystemExit(f"engine {at} does not serve after {_READY_S:.0f} s")


def main() -> None:
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 4  # noqa: PLR2004  the second argument
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    start(folder, count)


if __name__ == "__main__":
    main()
