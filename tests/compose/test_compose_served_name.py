"""The name by which a replica's engines know their model."""

import pytest

from modelplane.compose.engines.served_name import served_name


def engine(*args, kind="vLLM", command=None, role="Standalone", extra=()):
    container = {"name": "engine", "args": list(args), **({"command": command} if command else {})}
    member = {"role": role, "template": {"spec": {"containers": [*extra, container]}}}
    return {"name": "main", "type": kind, "members": [member]}


def replica(*engines):
    metadata = {"name": "r", "namespace": "team", "labels": {"modelplane.ai/deployment": "chat"}}
    return {"metadata": metadata, "spec": {"engines": list(engines)}}


MIXED = engine("Qwen/Qwen3-8B")
MIXED["members"].insert(0, engine("other/model", role="Worker")["members"][0])


@pytest.mark.parametrize(
    ("engines", "name"),
    [
        pytest.param([engine("Qwen/Qwen3-8B", "--max-model-len", "8")], "Qwen/Qwen3-8B", id="the model itself"),
        pytest.param([engine("--max-model-len", "8", "--model=Qwen/Q")], "Qwen/Q", id="the model as a flag"),
        pytest.param([engine("Qwen/Q", "--served-model-name", "q", "fast")], "q", id="the first name"),
        pytest.param([engine("/mnt/models", "--served-model-name=q")], "q", id="a name for a path"),
        pytest.param([engine()], "chat", id="mounted weights: the deployment's"),
        pytest.param([engine("--config", "c.yaml")], None, id="in a file"),
        pytest.param([engine("--model-path", "a/b", kind="SGLang")], "a/b", id="SGLang"),
        pytest.param([engine(kind="SGLang")], "chat", id="SGLang with mounted weights"),
        pytest.param([engine("a/b", kind="Custom")], None, id="custom"),
        pytest.param([engine("--served-model-name", "q", kind="Custom")], "q", id="custom with the flag"),
        pytest.param([engine("a/b", command=["serve"])], None, id="a command of its own"),
        pytest.param([engine("--served-model-name", "q", command=["serve"])], "q", id="a command with the flag"),
        pytest.param([engine("m", "--served-model-name", "$(MODELPLANE_SERVED_MODEL_NAME)")], "team/chat", id="ours"),
        pytest.param([engine("m", "--served-model-name", "$(OTHER)")], None, id="somebody's variable"),
        pytest.param([engine("a/b"), engine("a/b")], "a/b", id="phases alike"),
        pytest.param([engine("a/b"), engine("c/d")], None, id="phases apart"),
        pytest.param([MIXED], "Qwen/Qwen3-8B", id="a worker does not answer"),
        pytest.param([engine("a/b", extra=[{"name": "proxy", "args": ["x/y"]}])], "a/b", id="a sidecar does not"),
        pytest.param([engine("a" * 253)], "a" * 253, id="as long as a name may be"),
        pytest.param([engine("a" * 254)], None, id="longer than a name may be"),
        pytest.param([], None, id="no engine"),
    ],
)
def test_the_name_is_what_the_spec_says_and_never_a_guess(engines, name):
    assert served_name(replica(*engines)) == name


@pytest.mark.parametrize("garbled", [{}, {"spec": {"engines": 3}}, {"spec": {"engines": [{"members": "x"}]}}])
def test_what_cannot_be_read_says_nothing(garbled):
    assert served_name(garbled) is None
