"""`modelplane new`: a ModelDeployment and a ModelService for a model that fits the hardware that is there."""

import argparse
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modelplane.api.errors import InputError, NotFoundError
from modelplane.cli.running import add_data_argument

if TYPE_CHECKING:
    from modelplane.views.model_sizing import ModelFit, ModelSize, NodeDevices

_EPILOG = """\
examples:
  modelplane new Qwen/Qwen3-8B                               for the classes that pools of the running plane have
  modelplane new Qwen/Qwen3-8B --class h200-8x               for a node of `modelplane catalog list`
  modelplane new acme/chat --parameters 70B --dtype fp8 -f examples/quickstart
  modelplane new Qwen/Qwen3-32B --max-model-len 8192 | modelplane plan -f - --data
  modelplane new Qwen/Qwen3-8B > model.yaml && modelplane apply -f model.yaml

The memory is weights, a fifth of them more, and the KV cache of one request of the longest context; comments of the
output show the numbers. The name tells parameters (8B) and type (FP8, AWQ) where options do not. The KV cache of a
token is an estimate by size: --kv-per-token has the model's own. A replica gets the fewest devices of one node that
have enough. Whether they are free, `modelplane plan` says.

Exit codes: 0 it fits, 1 the input was refused, 3 it fits on no node.
"""
_IMAGE: Final = "vllm/vllm-openai:v0.27.1"
_IMAGE_DRIVER: Final = "gpu.nvidia.com"
_DTYPES: Final = ("bf16", "fp16", "fp8", "int8", "int4")
_CONTEXT: Final = 32768
_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_LONGEST_NAME: Final = 40
_MOST: Final = 100_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Prints a ModelDeployment and a ModelService for a model, sized for the hardware that is there."
    )
    parser.epilog = _EPILOG
    parser.add_argument("model", metavar="MODEL", help="the repository, such as Qwen/Qwen3-8B")
    parser.add_argument("--parameters", metavar="N", help="such as 8B (default: what the name tells)")
    parser.add_argument(
        "--dtype", choices=_DTYPES, help="type of the weights (default: what the name tells, else bf16)"
    )
    parser.add_argument(
        "--max-model-len", type=_count, default=_CONTEXT, metavar="N", help=f"longest context in tokens ({_CONTEXT})"
    )
    parser.add_argument("--kv-per-token", type=_count, metavar="BYTES", help="KV cache of one token (an estimate)")
    parser.add_argument("--replicas", type=_count, default=1, metavar="N", help="how many replicas (1)")
    parser.add_argument("--name", help="name of both objects (default: from the model's)")
    parser.add_argument("-n", "--namespace", default="default", help="the namespace (default)")
    parser.add_argument("--image", help=f"image of the engine; needed where no device is NVIDIA's ({_IMAGE})")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--class", dest="node", metavar="NODE", help="hardware: a node of the catalogue")
    where.add_argument(
        "-f", "--filename", dest="manifests", action="append", default=[], metavar="PATH",
        help="hardware: manifests with InferenceClasses, a file, a folder, or - for standard input",
    )  # fmt: skip
    where.add_argument("--kubeconfig", type=Path, metavar="FILE", help="hardware: the control plane of a kubeconfig")
    add_data_argument(where)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:12]) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MOST}")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    from modelplane.cli._shown import EXIT_DOES_NOT_FIT
    from modelplane.views.model_sizing import smallest_fit

    _check_names(arguments)
    size = _size(arguments)
    nodes = _nodes(arguments)
    fit = smallest_fit(size, nodes)
    if fit is None:
        print(f"modelplane new: {_too_large(arguments.model, size, nodes)}", file=sys.stderr)
        return EXIT_DOES_NOT_FIT
    sys.stdout.write(_text(arguments, size, fit))
    return 0


def _check_names(arguments: argparse.Namespace) -> None:
    from modelplane.api.names import is_dns_label

    if not _MODEL.fullmatch(arguments.model):
        raise InputError(f"{arguments.model!r} is not the name of a model such as Qwen/Qwen3-8B")
    for name in filter(None, (arguments.name, arguments.namespace)):
        if not is_dns_label(name):
            raise InputError(f"{name!r} is not a name of lower case letters, digits and -, 63 at most")


def _size(arguments: argparse.Namespace) -> "ModelSize":
    from modelplane.views.model_sizing import (
        ModelSize,
        dtype_in,
        estimated_kv_per_token,
        parameters_in,
        parse_parameters,
    )

    given = arguments.parameters
    parameters = parse_parameters(given) if given else parameters_in(arguments.model)
    if parameters is None:
        raise InputError(f"the name {arguments.model} does not tell how many parameters it has; use --parameters 8B")
    dtype = arguments.dtype or dtype_in(arguments.model) or _DTYPES[0]
    kv_per_token = arguments.kv_per_token or estimated_kv_per_token(parameters)
    return ModelSize(parameters, dtype, arguments.max_model_len, kv_per_token)


def _nodes(arguments: argparse.Namespace) -> "tuple[NodeDevices, ...]":
    from modelplane.views.model_sizing import nodes_of

    found = nodes_of(_hardware(arguments))
    if not found:
        raise InputError("no InferenceClass has whole devices with memory; --class takes a node of the catalogue")
    ours = tuple(node for node in found if arguments.image or node.driver == _IMAGE_DRIVER)
    if not ours:
        drivers = ", ".join(sorted({node.driver for node in found}))
        raise InputError(f"devices are those of {drivers}, and {_IMAGE} needs {_IMAGE_DRIVER}; --image names another")
    return ours


def _hardware(arguments: argparse.Namespace) -> Iterable[Mapping[str, object]]:
    if arguments.node:
        from modelplane.catalog import inference_class, load_catalog

        catalog = load_catalog()
        return [inference_class(catalog, catalog.find(arguments.node))]
    from modelplane.cli._shown import objects_of, reviewed_documents

    if arguments.manifests:
        return [each.value for each in reviewed_documents(arguments.manifests) if isinstance(each.value, dict)]
    from modelplane.cli._formats import plane_of

    try:
        return objects_of(plane_of(arguments))
    except NotFoundError as error:
        raise NotFoundError(f"{error}; --class takes a node of `modelplane catalog`, -f manifests") from error


def _too_large(model: str, size: "ModelSize", nodes: "Iterable[NodeDevices]") -> str:
    from modelplane.views.model_sizing import USABLE, largest_node

    largest = largest_node(nodes)
    assert largest is not None, "there are nodes"  # noqa: S101  _nodes refuses none
    node, count = largest
    has = f"{count} x {_gib(node.memory)}, of which {USABLE * 100:.0f} % are {_gib(count * node.usable)}"
    parts = f"weights {_gib(size.weights)}, 20 % {_gib(size.overhead)}, KV cache {_gib(size.kv_cache)}"
    return (
        f"{model} needs {_gib(size.total)} ({parts}); the largest node, of class {node.class_name}, has {has}. "
        "A smaller --dtype or --max-model-len needs less"
    )


def _text(arguments: argparse.Namespace, size: "ModelSize", fit: "ModelFit") -> str:
    from modelplane.k8s.yaml import to_yaml_documents

    name = arguments.name or _name(arguments.model)
    metadata = {"name": name, "namespace": arguments.namespace}
    documents = (_deployment(arguments, size, fit, metadata), _service(metadata))
    return "".join(f"# {line}\n" for line in _arithmetic(arguments, size, fit)) + to_yaml_documents(documents)


def _name(model: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", model.rpartition("/")[2].lower())[:_LONGEST_NAME].strip("-")


def _arithmetic(arguments: argparse.Namespace, size: "ModelSize", fit: "ModelFit") -> Iterator[str]:
    from modelplane.views.model_sizing import BITS, USABLE

    source = "as given" if arguments.parameters else "as its name tells"
    kv_source = "as given" if arguments.kv_per_token else "an estimate by size"
    bits = f"{BITS[size.dtype]:g} bits"
    yield f"{arguments.model}: {size.parameters / 1e9:g}B parameters, {source}, in {size.dtype}"
    yield f"  weights     {_gib(size.weights):>11}   {size.parameters / 1e9:g}B x {bits}"
    yield f"  overhead    {_gib(size.overhead):>11}   20 % of the weights"
    kib = f"{size.kv_per_token / 1024:g} KiB"
    yield f"  KV cache    {_gib(size.kv_cache):>11}   {size.context} tokens x {kib}, {kv_source}"
    yield f"  together    {_gib(size.total):>11}"
    node, count = fit
    has = f"{count} x {node.product} of {_gib(node.memory)}, of which vLLM takes {USABLE * 100:.0f} %"
    yield f"  devices     {_gib(count * node.usable):>11}   {has} (class {node.class_name})"


def _gib(amount: int) -> str:
    from modelplane.views.model_sizing import GIB

    return f"{amount / GIB:.1f} GiB"


def _deployment(
    arguments: argparse.Namespace, size: "ModelSize", fit: "ModelFit", metadata: Mapping[str, str]
) -> dict[str, object]:
    from modelplane.api.objects import API_VERSION
    from modelplane.views.model_sizing import GIB, USABLE

    least = math.ceil(size.total / fit.tensor / USABLE / GIB)
    driver = fit.node.driver
    # Rounded up to whole GiB it may be above what the device that was found has.
    memory = f"{least}Gi" if least * GIB <= fit.node.memory else str(fit.node.memory)
    cel = f'device.driver == "{driver}" && device.capacity["{driver}"].memory.compareTo(quantity("{memory}")) >= 0'
    container = {"name": "engine", "image": arguments.image or _IMAGE, "args": _args(arguments, size, metadata["name"])}
    workers: dict[str, object] = {"topology": {"tensor": fit.tensor}} if fit.tensor > 1 else {}
    spec = {
        "replicas": arguments.replicas,
        "labels": {"app": metadata["name"]},
        "nodeSelector": {"devices": [{"name": "gpu", "count": fit.tensor, "selectors": [{"cel": cel}]}]},
        "workers": {**workers, "template": {"spec": {"containers": [container]}}},
    }
    return {"apiVersion": API_VERSION, "kind": "ModelDeployment", "metadata": dict(metadata), "spec": spec}


def _args(arguments: argparse.Namespace, size: "ModelSize", name: str) -> list[str]:
    """Other weights become fp8 when vLLM gets the flag; every other type is that of the files."""
    from modelplane.views.model_sizing import dtype_in

    made = ["--quantization", "fp8"] if size.dtype == "fp8" and dtype_in(arguments.model) is None else []
    return [arguments.model, "--served-model-name", name, "--max-model-len", str(size.context), *made]


def _service(metadata: Mapping[str, str]) -> dict[str, object]:
    from modelplane.api.objects import API_VERSION

    spec = {"endpoints": [{"selector": {"matchLabels": {"app": metadata["name"]}}}]}
    return {"apiVersion": API_VERSION, "kind": "ModelService", "metadata": dict(metadata), "spec": spec}
