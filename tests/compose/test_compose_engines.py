import os
import socket
import subprocess
import sys

import pytest

from modelplane.api.models import Topology
from modelplane.compose.context import RenderError
from modelplane.compose.engines import ENGINES
from modelplane.compose.engines.bootstrap import RAY_WORKER, VLLM_DATA_PARALLEL, VLLM_RAY_LEADER
from modelplane.compose.engines.launch import Launch, LaunchRequest, flag_value
from modelplane.compose.engines.vllm import given_model

ANYWHERE = "0.0.0.0"  # noqa: S104  the address of a server inside its pod
RENDEZVOUS = (
    *("--nnodes", "$(MODELPLANE_GROUP_SIZE)", "--node-rank", "$(MODELPLANE_RANK)"),
    *("--master-addr", "$(MODELPLANE_LEADER_ADDRESS)"),
)


def ask(**given) -> LaunchRequest:
    defaults = {
        "engine": "main",
        "args": (),
        "role": "Standalone",
        "nodes": 1,
        "port": 8000,
        "topology": Topology(),
        "coordination": "Native",
        "served_names": ("qwen",),
        "model_path": "/mnt/models",
    }
    return LaunchRequest(**{**defaults, **given})


def launched(kind: str, **given) -> Launch:
    return ENGINES[kind].launch(ask(**given))


@pytest.mark.parametrize(
    ("given", "args"),
    [
        ({}, ("/mnt/models", "--served-model-name", "qwen")),
        ({"args": ("--served-model-name", "mine")}, ("/mnt/models", "--served-model-name", "mine")),
        ({"port": 9000}, ("/mnt/models", "--served-model-name", "qwen", "--port", "9000")),
        ({"args": ("--x",), "adapters": (("sql", "/a/sql"),)},
         ("/mnt/models", "--served-model-name", "qwen", "--enable-lora", "--max-loras", "1", "--lora-modules",
          "sql=/a/sql", "--x")),
    ],
)  # fmt: skip
def test_vllm_serves_the_weights_that_are_mounted(given, args):
    assert launched("vLLM", **given) == Launch((), args, ("vllm", "serve"))


@pytest.mark.parametrize(
    ("given", "args"),
    [
        (("Qwen/Q", "--x"), ("/mnt/models", "--served-model-name", "Qwen/Q", "qwen", "--x")),
        (("--model", "Qwen/Q"), ("/mnt/models", "--served-model-name", "Qwen/Q", "qwen")),
        (("--max-model-len", "8", "Qwen/Q"),
         ("/mnt/models", "--served-model-name", "Qwen/Q", "qwen", "--max-model-len", "8")),
        (("qwen",), ("/mnt/models", "--served-model-name", "qwen")),
        (("Qwen/Q", "--served-model-name", "mine"), ("/mnt/models", "--served-model-name", "mine")),
        (("/mnt/models/sub", "--x"),
         ("/mnt/models/sub", "--served-model-name", "/mnt/models/sub", "qwen", "--x")),
    ],
)  # fmt: skip
def test_vllm_serves_mounted_weights_under_the_name_that_the_args_give(given, args):
    assert launched("vLLM", args=given) == Launch((), args, ("vllm", "serve"))


@pytest.mark.parametrize(
    ("args", "model"),
    [
        (("Q",), "Q"),
        (("--max-model-len", "32768", "Q"), "Q"),
        (("--max-model-len=32768", "Q"), "Q"),
        (("--enable-prefix-caching", "Q", "--seed", "-1"), "Q"),
        (("--seed", "-1", "Q"), "Q"),
        (("--trust-remote-code", "--model", "Q"), "Q"),
        (("--served-model-name", "a", "b"), None),
        (("--lora-modules", "a=/a", "b=/b", "--x", "y"), None),
        ((), None),
    ],
)
def test_vllm_finds_its_model_wherever_it_is_named(args, model):
    assert given_model(args)[0] == model


@pytest.mark.parametrize(
    ("given", "args"),
    [
        ({"args": ("Qwen/Q", "--x")}, ("Qwen/Q", "--x")),
        ({"args": ("--model=Qwen/Q",), "topology": Topology(tensor=4)}, ("Qwen/Q", "--tensor-parallel-size", "4")),
        ({"args": ("--max-model-len", "8", "Qwen/Q")}, ("Qwen/Q", "--max-model-len", "8")),
        ({"args": ("Q", "--port=9000"), "port": 9000}, ("Q", "--port=9000")),
        ({"args": ("Q", "-tp", "2"), "topology": Topology(tensor=8)}, ("Q", "-tp", "2")),
        ({"args": ("Q",), "topology": Topology(tensor=2, data=4)},
         ("Q", "--tensor-parallel-size", "2", "--data-parallel-size", "4")),
        ({"args": ("Q", "--max-loras", "8"), "adapters": (("sql", "/a/sql"), ("rust", "/a/rust"))},
         ("Q", "--enable-lora", "--lora-modules", "sql=/a/sql", "rust=/a/rust", "--max-loras", "8")),
        ({"args": ("Q", "--lora-modules", "x=/x"), "adapters": (("sql", "/a/sql"),)}, ("Q", "--lora-modules", "x=/x")),
    ],
)  # fmt: skip
def test_vllm_on_one_node(given, args):
    assert launched("vLLM", model_path=None, served_names=(), **given) == Launch((), args, ("vllm", "serve"))


@pytest.mark.parametrize(
    ("given", "args"),
    [
        (("Qwen/Q",), ("Qwen/Q", "--served-model-name", "Qwen/Q", "qwen", "chat/qwen")),
        (("--model", "Qwen/Q", "--x"), ("Qwen/Q", "--served-model-name", "Qwen/Q", "qwen", "chat/qwen", "--x")),
        (("Qwen/Q", "--served-model-name", "mine"), ("Qwen/Q", "--served-model-name", "mine")),
    ],
)
def test_vllm_answers_to_every_name_of_a_model_that_it_fetches(given, args):
    assert launched("vLLM", model_path=None, args=given, served_names=("qwen", "chat/qwen")).args == args


NIXL_CONFIG = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
OFFLOADING = '{"kv_connector":"OffloadingConnector","kv_role":"kv_both"}'


@pytest.mark.parametrize(
    ("phase", "given", "added"),
    [
        (None, (), ()),
        ("Prefill", (), ("--kv-transfer-config", NIXL_CONFIG)),
        ("Decode", (), ("--kv-transfer-config", NIXL_CONFIG)),
        ("Decode", ("--kv-transfer-config", OFFLOADING), ()),
        ("Decode", (f"--kv-transfer-config={OFFLOADING}",), ()),
        ("Prefill", ("--kv-transfer-config.kv_connector", "NixlConnector"), ()),
        ("Prefill", ("--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}'), ()),
    ],
)
def test_vllm_is_told_how_kv_caches_move(phase, given, added):
    found = launched("vLLM", args=("Q", *given), model_path=None, served_names=(), phase=phase)
    assert found.args == ("Q", *added, *given)


@pytest.mark.parametrize(
    ("phase", "config", "wrong"),
    [
        ("Decode", '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}',
         "has the role kv_producer, and the engine's phase is Decode"),
        ("Prefill", '{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}',
         "has the role kv_consumer, and the engine's phase is Prefill"),
        ("Prefill", "{", "is not JSON"),
        ("Prefill", "{}", "names no kv_connector"),
        ("Prefill", "[]", "names no kv_connector"),
    ],
)  # fmt: skip
def test_vllm_refuses_a_transfer_that_contradicts_its_phase(phase, config, wrong):
    with pytest.raises(RenderError) as caught:
        launched("vLLM", args=("Q", "--kv-transfer-config", config), phase=phase)
    assert str(caught.value) == f"engine main: --kv-transfer-config {wrong}"


@pytest.mark.parametrize(
    ("phase", "given", "added"),
    [
        (None, (), ()),
        ("Prefill", (), ("--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", "8998")),
        ("Decode", (), ("--disaggregation-mode", "decode")),
        ("Decode", ("--disaggregation-mode=decode",), ()),
        ("Prefill", ("--disaggregation-bootstrap-port", "9000"), ("--disaggregation-mode", "prefill")),
    ],
)
def test_sglang_is_told_its_side_of_the_pair(phase, given, added):
    found = launched("SGLang", args=("--model-path", "Q", *given), model_path=None, phase=phase)
    server = ("--host", ANYWHERE, "--port", "8000", "--enable-metrics")
    assert found.args == (*server, *added, "--model-path", "Q", *given)


def test_sglang_refuses_the_other_side_of_the_pair():
    with pytest.raises(RenderError, match=r"--disaggregation-mode decode in the args contradicts its phase, Prefill"):
        launched("SGLang", args=("--disaggregation-mode", "decode"), phase="Prefill")


@pytest.mark.parametrize("role", ["Leader", "Worker"])
def test_one_copy_of_a_layer_may_be_on_several_nodes(role):
    topology = Topology(tensor=16, tensor_local=8, expert=True)
    found = launched("vLLM", args=("Q",), model_path=None, served_names=(), role=role, nodes=2, topology=topology)
    headless = ("--headless",) if role == "Worker" else ()
    assert found.args == ("Q", "--tensor-parallel-size", "16", "--enable-expert-parallel", *RENDEZVOUS, *headless)
    sglang = launched("SGLang", args=("--model-path", "Q"), model_path=None, role=role, nodes=2, topology=topology).args
    assert (flag_value(sglang, "--tp-size"), flag_value(sglang, "--ep-size")) == ("16", "16")
    assert flag_value(sglang, "--dist-init-addr") == "$(MODELPLANE_LEADER_ADDRESS):20000"


@pytest.mark.parametrize("flag", ["--ep-size", "--ep", "--expert-parallel-size"])
def test_sglang_has_the_experts_that_a_user_gives(flag):
    args = ("--model-path", "Q", flag, "4")
    found = launched("SGLang", args=args, model_path=None, topology=Topology(tensor=8, expert=True))
    assert (flag_value(found.args, flag), flag_value(found.args, "--tp-size")) == ("4", "8")
    assert sum(word.startswith(("--ep", "--expert")) for word in found.args) == 1


@pytest.mark.parametrize("role", ["Leader", "Worker"])
def test_vllm_splits_layers_over_nodes_without_ray(role):
    topology = Topology(tensor=8, pipeline=2)
    found = launched("vLLM", args=("Q",), model_path=None, served_names=(), role=role, nodes=2, topology=topology)
    headless = ("--headless",) if role == "Worker" else ()
    sizes = ("--tensor-parallel-size", "8", "--pipeline-parallel-size", "2")
    assert (found.command, found.args) == ((), ("Q", *sizes, *RENDEZVOUS, *headless))


def test_vllm_without_any_model_is_refused():
    with pytest.raises(RenderError, match="engine main: no model"):
        launched("vLLM", model_path=None)


def test_vllm_may_take_its_model_from_a_configuration_file():
    assert launched("vLLM", args=("--config", "/c.yaml"), model_path=None).args == ("--config", "/c.yaml")


@pytest.mark.parametrize(
    ("given", "args"),
    [
        ({"args": ("--model-path", "Q", "--port", "30000"), "port": 30000},
         ("--host", ANYWHERE, "--enable-metrics", "--model-path", "Q", "--port", "30000")),
        ({"args": ("--model-path", "Q"), "topology": Topology(tensor=2, data=4)},
         ("--host", ANYWHERE, "--port", "8000", "--enable-metrics", "--tp-size", "2", "--dp-size", "4",
          "--model-path", "Q")),
        ({"args": ("--model-path", "Q"), "adapters": (("sql", "/a"),)},
         ("--host", ANYWHERE, "--port", "8000", "--enable-metrics", "--enable-lora", "--lora-paths", "sql=/a",
          "--model-path", "Q")),
    ],
)  # fmt: skip
def test_sglang_on_one_node(given, args):
    assert launched("SGLang", model_path=None, **given) == Launch(("python3", "-m", "sglang.launch_server"), args)


@pytest.mark.parametrize(
    ("given", "named", "rest"),
    [
        ((), ("--served-model-name", "qwen"), ()),
        (("--model-path", "Qwen/Q", "--x"), ("--served-model-name", "Qwen/Q"), ("--x",)),
        (("--model=Qwen/Q",), ("--served-model-name", "Qwen/Q"), ()),
        (("--model-path", "Q", "--served-model-name", "mine"), (), ("--served-model-name", "mine")),
    ],
)
def test_sglang_serves_mounted_weights_under_the_name_that_the_args_give(given, named, rest):
    server = ("--host", ANYWHERE, "--port", "8000", "--enable-metrics")
    assert launched("SGLang", args=given).args == ("--model-path", "/mnt/models", *named, *server, *rest)


def test_sglang_leaves_a_path_that_the_args_give():
    assert launched("SGLang", args=("--model-path", "/mnt/models/sub")).args[-2:] == ("--model-path", "/mnt/models/sub")


def test_sglang_counts_the_gpus_of_all_nodes_when_ranks_are_split():
    args = launched(
        "SGLang", args=("--model-path", "Q"), role="Worker", nodes=2, topology=Topology(data=16, data_local=8)
    ).args
    assert flag_value(args, "--tp-size") == flag_value(args, "--dp-size") == "16"
    assert "--enable-dp-attention" in args
    assert flag_value(args, "--dist-init-addr") == "$(MODELPLANE_LEADER_ADDRESS):20000"


@pytest.mark.parametrize("given", [{"coordination": "Ray"}, {"model_path": None}])
def test_sglang_refuses_what_it_cannot_do(given):
    with pytest.raises(RenderError, match="engine main"):
        launched("SGLang", **given)


@pytest.mark.parametrize(
    ("given", "args"),
    [
        ({}, ("--model=/mnt/models",)),
        ({"model_path": None}, ()),
        ({"args": ("--model", "Q")}, ("--model", "Q")),
        ({"args": ("--model-path=Q",)}, ("--model-path=Q",)),
        ({"args": ("Q", "--x")}, ("Q", "--x")),
        ({"args": ("--x",), "port": 8001, "moved": True}, ("--x", "--model=/mnt/models", "--port=8001")),
    ],
)
def test_an_unknown_engine_gets_the_path_of_its_weights_and_no_more(given, args):
    assert launched("Custom", **given) == Launch((), args)


def run(program: str, args: list[str], folder, rank: int) -> list[str]:
    """Runs a bootstrap as a pod would, with engines that say what they were called with."""
    for name in ("vllm", "ray"):
        tool = folder / name
        tool.write_text(f"#!{sys.executable}\nimport sys\nprint('{name}', *sys.argv[1:], sep='\\n')\n")
        tool.chmod(0o755)
    (folder / "ray.py").write_text(
        "def init(address): pass\ndef shutdown(): pass\ndef nodes(): return [{'Alive': True}] * 2\n"
    )
    environment = {
        **os.environ,
        "PATH": str(folder),
        "PYTHONPATH": str(folder),
        "MODELPLANE_LEADER_ADDRESS": "localhost",
        "MODELPLANE_RANK": str(rank),
        "MODELPLANE_GROUP_SIZE": "2",
    }
    done = subprocess.run(
        [sys.executable, "-c", program, *args], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("rank", "own"),
    [(0, []), (1, ["--headless", "--data-parallel-start-rank", "8"])],
)
def test_each_node_of_a_data_parallel_engine_knows_its_first_rank(tmp_path, rank, own):
    words = run(VLLM_DATA_PARALLEL, ["8", "Q; rm -rf $HOME", "--x y"], tmp_path, rank)
    assert words == ["vllm", "serve", "Q; rm -rf $HOME", "--x y", "--data-parallel-address", "127.0.0.1", *own]


def test_a_ray_leader_waits_for_its_workers_then_serves(tmp_path):
    words = run(VLLM_RAY_LEADER, ["Q"], tmp_path, 0)
    assert words == [
        *("ray", "start", "--head", "--port=6379", "--disable-usage-stats"),
        *("vllm", "serve", "Q", "--distributed-executor-backend", "ray"),
    ]


def test_a_ray_worker_waits_for_its_leader(tmp_path):
    with socket.create_server(("localhost", 0)) as leader:
        port = leader.getsockname()[1]
        words = run(RAY_WORKER.replace("6379", str(port)), [], tmp_path, 1)
    assert words == ["ray", "start", f"--address=localhost:{port}", "--disable-usage-stats", "--block"]


def test_ray_is_used_when_asked_for():
    given = {"served_names": (), "nodes": 2, "coordination": "Ray", "topology": Topology(pipeline=2)}
    leader = launched("vLLM", args=("/m/Q",), role="Leader", **given)
    worker = launched("vLLM", args=("Q",), role="Worker", **given)
    assert leader.command == ("python3", "-c", VLLM_RAY_LEADER)
    assert leader.args == ("/m/Q", "--pipeline-parallel-size", "2")
    assert (worker.command, worker.args) == (("python3", "-c", RAY_WORKER), ())


@pytest.mark.parametrize("program", [VLLM_DATA_PARALLEL, VLLM_RAY_LEADER, RAY_WORKER])
def test_bootstraps_hold_nothing_that_a_pod_would_expand(program):
    assert "$(" not in program


TRITON = ("python3", "/opt/tritonserver/python/openai/openai_frontend/main.py")
TRT, SERVER = ("trtllm-serve",), ("--host", ANYWHERE, "--port", "8000")


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("TensorRT-LLM", {"args": ("Qwen/Q", "--max_batch_size", "8"), "model_path": None},
         Launch(TRT, ("Qwen/Q", "--served_model_name", "Qwen/Q", *SERVER, "--max_batch_size", "8"))),
        ("TensorRT-LLM", {"topology": Topology(tensor=4, expert=True)},
         Launch(TRT, ("/mnt/models", "--served_model_name", "qwen", *SERVER, "--tp_size", "4", "--ep_size", "4"))),
        ("TensorRT-LLM", {"args": ("Q", "--host", "::"), "topology": Topology(tensor=2)},
         Launch(TRT, ("/mnt/models", "--served_model_name", "Q", "--port", "8000", "--tp_size", "2", "--host", "::"))),
        ("TensorRT-LLM", {"args": ("--tp_size", "2"), "topology": Topology(tensor=4, expert=True)},
         Launch(TRT, ("/mnt/models", "--served_model_name", "qwen", *SERVER, "--ep_size", "2", "--tp_size", "2"))),
        ("TensorRT-LLM", {"args": ("Q", "--tp_size", "2", "--served_model_name", "m"), "topology": Topology(tensor=2)},
         Launch(TRT, ("/mnt/models", *SERVER, "--tp_size", "2", "--served_model_name", "m"))),
        ("llama.cpp", {"args": ("-m", "/mnt/models/q.gguf")},
         Launch((), ("-m", "/mnt/models/q.gguf", *SERVER, "--metrics", "--alias", "qwen"), ("/app/llama-server",))),
        ("llama.cpp", {"args": ("-hf", "Qwen/Q", "--port", "9", "-a", "mine"), "port": 9, "model_path": None},
         Launch((), ("-hf", "Qwen/Q", "--port", "9", "-a", "mine", "--host", ANYWHERE, "--metrics"),
                ("/app/llama-server",))),
        ("TGI", {"topology": Topology(tensor=2)},
         Launch((), ("--model-id", "/mnt/models", "--hostname", ANYWHERE, "--port", "8000", "--num-shard", "2"),
                ("text-generation-launcher",))),
        ("TGI", {"args": ("--model-id", "Qwen/Q"), "model_path": None},
         Launch((), ("--hostname", ANYWHERE, "--port", "8000", "--model-id", "Qwen/Q"), ("text-generation-launcher",))),
        ("TensorRT-LLM", {"topology": Topology(expert=True)},
         Launch(TRT, ("/mnt/models", "--served_model_name", "qwen", *SERVER))),
        ("TEI", {"args": ("--dtype", "float16"), "served_names": ("qwen", "chat/qwen")},
         Launch((), ("--model-id", "/mnt/models", "--served-model-name", "qwen", "--hostname", ANYWHERE, "--port",
                     "8000", "--dtype", "float16"), ("text-embeddings-router",))),
        ("TEI", {"args": ("--model-id", "BAAI/b", "-p", "80"), "model_path": None},
         Launch((), ("--hostname", ANYWHERE, "--model-id", "BAAI/b", "-p", "80"), ("text-embeddings-router",))),
        ("Triton", {"port": 9},
         Launch(TRITON, ("--model-repository", "/mnt/models", "--host", ANYWHERE, "--openai-port", "9"))),
        ("Triton", {"args": ("--model-repository=/r", "--tokenizer", "t"), "model_path": None},
         Launch(TRITON, ("--host", ANYWHERE, "--openai-port", "8000", "--model-repository=/r", "--tokenizer", "t"))),
        ("NIM", {"args": (), "model_path": None},
         Launch((), (), env=({"name": "NIM_SERVER_PORT", "value": "8000"},))),
        ("NIM", {"args": ("--x",), "port": 9},
         Launch((), ("--x",), env=({"name": "NIM_SERVER_PORT", "value": "9"},
                                   {"name": "NIM_MODEL_PATH", "value": "/mnt/models"}))),
    ],
)  # fmt: skip
def test_engines_of_one_node(kind, given, expected):
    assert launched(kind, **given) == expected


@pytest.mark.parametrize(
    ("kind", "given", "wrong"),
    [
        ("TensorRT-LLM", {"nodes": 2}, "TensorRT-LLM is not run with several nodes"),
        ("TGI", {"topology": Topology(data=2)}, "TGI is not run with data-parallel ranks"),
        ("TGI", {"phase": "Decode"}, "TGI is not run with prefill and decode apart"),
        ("TGI", {"adapters": (("sql", "/a"),)}, "TGI is not run with adapters from caches"),
        ("llama.cpp", {"topology": Topology(tensor=2)},
         "llama.cpp is not run with a tensor size: it uses the devices that it sees"),
        ("NIM", {"topology": Topology(tensor=2)},
         "NIM is not run with a tensor size: it uses the devices that it sees"),
        ("TensorRT-LLM", {"model_path": None}, "no model: name the model in the engine's args"),
        ("llama.cpp", {}, "no model: name a GGUF file by -m, or a repository by -hf, in the engine's args"),
        ("TGI", {"model_path": None}, "no model: set --model-id in the args"),
        ("TEI", {"model_path": None}, "no model: set --model-id in the args"),
        ("TEI", {"topology": Topology(tensor=2)},
         "TEI is not run with a tensor size: it uses the devices that it sees"),
        ("Triton", {"model_path": None},
         "no model: mount a cache with a model repository or set --model-repository in the args"),
        ("Triton", {"nodes": 2}, "Triton is not run with several nodes"),
        ("Triton", {"topology": Topology(tensor=2)},
         "Triton is not run with a tensor size: it uses the devices that it sees"),
    ],
)  # fmt: skip
def test_engines_of_one_node_refuse_the_rest(kind, given, wrong):
    with pytest.raises(RenderError) as caught:
        launched(kind, **given)
    assert str(caught.value) == f"engine main: {wrong}"


def test_engines_are_ready_where_they_say_so():
    assert {kind: found.health for kind, found in ENGINES.items() if found.health != "/health"} == {
        "NIM": "/v1/health/ready",
        "Triton": "/health/ready",
    }


def test_what_is_known_of_each_engine():
    """The label of its metrics, where it says that it is up, the flags of its port, and whether it counts devices."""
    health, port, ports = "/health", ("--port",), ("--port", "-p")
    assert {
        name: (each.label, each.health, each.port_flags, each.sized, each.kv_connector)
        for name, each in ENGINES.items()
    } == {
        "vLLM": ("vllm", health, port, True, "nixlv2"),
        "SGLang": ("sglang", health, port, True, "sglang"),
        "TensorRT-LLM": ("trtllm-serve", health, port, True, "nixlv2"),
        "llama.cpp": ("llama.cpp", health, port, False, "nixlv2"),
        "TGI": ("tgi", health, ports, True, "nixlv2"),
        "TEI": ("tei", health, ports, False, "nixlv2"),
        "Triton": ("triton", "/health/ready", ("--openai-port",), False, "nixlv2"),
        "NIM": ("nim", "/v1/health/ready", port, False, "nixlv2"),
        "Custom": ("", health, port, False, "nixlv2"),
    }
