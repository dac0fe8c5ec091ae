"""A small Llama with weights that matter, and a LoRA adapter for it, both made on the spot by a Python that has vLLM.

vLLM's dummy weights are so small that attention adds nothing to the next word: an answer would be the same without the
prompt's KV cache. Here the words are nonsense too, but they depend on every word before.
"""

import json
import subprocess
from pathlib import Path
from typing import Final

from gpu.engines import make_tokenizer

_LAYERS: Final = 8
_HIDDEN: Final = 1024
BLOCK_BYTES: Final = 16 * _LAYERS * 2 * 4 * 128 * 2
"""Of 16 tokens: keys and values of 4 heads of 128 numbers of 2 bytes a layer."""
_WEIGHTS: Final = """
import sys, torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(1)
config = LlamaConfig(vocab_size=512, hidden_size=HIDDEN, intermediate_size=2816, num_hidden_layers=LAYERS,
                     num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=8192, rope_theta=500000.0,
                     initializer_range=0.08, tie_word_embeddings=False, bos_token_id=256, eos_token_id=257)
model = LlamaForCausalLM(config).to(torch.bfloat16)
with torch.no_grad():
    model.lm_head.weight[94:] = 0  # only letters and signs of ASCII are said
model.save_pretrained(sys.argv[1])
"""
_ADAPTER: Final = """
import sys, torch
from safetensors.torch import save_file
torch.manual_seed(2)
def pair(at, name, out):
    place = f"base_model.model.model.layers.{at}.self_attn.{name}"
    return {f"{place}.lora_A.weight": torch.randn(8, HIDDEN) * 0.1, f"{place}.lora_B.weight": torch.randn(out, 8) * 0.1}
weights = {}
for at in range(LAYERS):
    weights |= pair(at, "q_proj", HIDDEN) | pair(at, "v_proj", HIDDEN // 2)
save_file({name: each.to(torch.bfloat16) for name, each in weights.items()}, sys.argv[1] + "/adapter_model.safetensors")
"""
_ADAPTER_CONFIG: Final = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "base_model_name_or_path": "demo",
    "r": 8,
    "lora_alpha": 16,
    "lora_dropout": 0.0,
    "bias": "none",
    "target_modules": ["q_proj", "v_proj"],
}


def make_small_model(folder: Path, python: str) -> Path:
    model = folder / "small"
    make_tokenizer(model, python)
    _run(python, _WEIGHTS, model)
    return model


def make_adapter(folder: Path, python: str) -> Path:
    adapter = folder / "adapter"
    adapter.mkdir(parents=True, exist_ok=True)
    (adapter / "adapter_config.json").write_text(json.dumps(_ADAPTER_CONFIG))
    _run(python, _ADAPTER, adapter)
    return adapter


def _run(python: str, program: str, folder: Path) -> None:
    sized = program.replace("HIDDEN", str(_HIDDEN)).replace("LAYERS", str(_LAYERS))
    subprocess.run([python, "-c", sized, str(folder)], check=True)  # noqa: S603  our own program
