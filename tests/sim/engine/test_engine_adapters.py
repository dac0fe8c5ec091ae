import pytest

from modelplane.sim.engine import Adapter
from modelplane.sim.engine.adapters import LoadedAdapters
from modelplane.sim.engine.errors import EngineApiError


def test_adapters_come_and_go():
    adapters = LoadedAdapters([Adapter("a", "/a")], ("demo",))
    assert adapters.load(Adapter("b", "/b"), in_place=False) == "Success: LoRA adapter 'b' added successfully."
    assert adapters.load(Adapter("b", "/c"), in_place=True) == "Success: LoRA adapter 'b' added successfully."
    assert adapters.listed() == (Adapter("a", "/a"), Adapter("b", "/c"))
    assert adapters.unload("a") == "Success: LoRA adapter 'a' removed successfully."
    assert ("a" in adapters, "b" in adapters) == (False, True)


@pytest.mark.parametrize(
    ("adapter", "sentence"),
    [
        (Adapter("", "/a"), "lora_name and lora_path: both are required."),
        (Adapter("b", ""), "lora_name and lora_path: both are required."),
        (Adapter("a", "/b"), "lora_name: `a` is loaded; load_inplace: true replaces it."),
        (Adapter("demo", "/b"), "lora_name: `demo` is a model that this engine serves."),
    ],
)
def test_what_cannot_be_loaded(adapter, sentence):
    with pytest.raises(EngineApiError) as caught:
        LoadedAdapters([Adapter("a", "/a")], ("demo",)).load(adapter, in_place=False)
    assert (caught.value.status, caught.value.message) == (400, sentence)


@pytest.mark.parametrize(
    ("name", "status", "sentence"),
    [("", 400, "lora_name: this field is required."), ("b", 404, "lora_name: `b` is not loaded.")],
)
def test_what_cannot_be_unloaded(name, status, sentence):
    with pytest.raises(EngineApiError) as caught:
        LoadedAdapters([Adapter("a", "/a")], ("demo",)).unload(name)
    assert (caught.value.status, caught.value.message) == (status, sentence)
