"""The LoRA adapters of an engine.

As in vLLM, an adapter is a model of its own name and may be loaded and unloaded while the engine runs. Loading takes no
slot: the adapters of the sequences in the batch get slots, step by step (`scheduler`). The time to read an adapter from
disk is not simulated.
"""

from collections.abc import Iterable

from modelplane.sim.engine import errors
from modelplane.sim.engine.config import Adapter


class LoadedAdapters:
    def __init__(self, known: Iterable[Adapter], models: tuple[str, ...]) -> None:
        self._known = {adapter.name: adapter for adapter in known}
        self._models = models

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def listed(self) -> tuple[Adapter, ...]:
        return tuple(self._known.values())

    def load(self, adapter: Adapter, *, in_place: bool) -> str:
        name = adapter.name
        if not name or not adapter.path:
            raise errors.refused_adapter(400, "lora_name and lora_path: both are required.")
        if name in self._models:
            raise errors.refused_adapter(400, f"lora_name: `{name}` is a model that this engine serves.")
        if name in self._known and not in_place:
            raise errors.refused_adapter(400, f"lora_name: `{name}` is loaded; load_inplace: true replaces it.")
        self._known[name] = adapter
        return f"Success: LoRA adapter '{name}' added successfully."

    def unload(self, name: str) -> str:
        if not name:
            raise errors.refused_adapter(400, "lora_name: this field is required.")
        if self._known.pop(name, None) is None:
            raise errors.refused_adapter(404, f"lora_name: `{name}` is not loaded.")
        return f"Success: LoRA adapter '{name}' removed successfully."
