import pytest

from modelplane.api.errors import InputError
from modelplane.sim.engine import Adapter


def test_served_by_names_cluster_and_pod(config):
    assert config().served_by == "east/demo-0"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"models": ()}, "engine east/demo-0: models: give at least one name, none of them empty"),
        ({"models": ("",)}, "engine east/demo-0: models: give at least one name, none of them empty"),
        ({"speed": 0}, "engine east/demo-0: speed: must be above 0, not 0"),
        ({"max_num_seqs": 0}, "engine east/demo-0: max_num_seqs: must be at least 1, not 0"),
        ({"block_size": 0}, "engine east/demo-0: block_size: must be at least 1, not 0"),
        ({"max_num_batched_tokens": 0}, "engine east/demo-0: max_num_batched_tokens: must be at least 1, not 0"),
        ({"embedding_size": 0}, "engine east/demo-0: embedding_size: must be at least 1, not 0"),
        (
            {"max_model_len": 33, "kv_capacity_tokens": 47},
            "engine east/demo-0: max_model_len: must be between 1 and the 32 tokens the cache holds, not 33",
        ),
        (
            {"adapters": (Adapter("a", "/a"),)},
            "engine east/demo-0: adapters: LoRA is not enabled, max_loras is 0",
        ),
        (
            {"max_loras": 1, "adapters": (Adapter("demo", "/a"),)},
            "engine east/demo-0: adapters: every adapter and model needs a name of its own",
        ),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(config, changes, sentence):
    with pytest.raises(InputError) as caught:
        config(**changes)
    assert str(caught.value) == sentence
