"""Every rendered set as it was last reviewed, and each object in it against the real definitions' structure.

`make golden` writes the files anew; read the difference.
"""

from pathlib import Path

import pytest
import yaml

from tests.compose.conftest import SCHEDULERS

GOLDEN = Path(__file__).parent / "golden"
SHAPES = (
    *("single-gpu", "tensor-8", "pipeline-2", "pipeline-4", "data-parallel", "kimi-k2-5p3d", "qwen3-coder-lora"),
    "gpt-oss-20b",
)
CASES = [
    *((shape, backend, scheduler) for shape in SHAPES for backend in ("native", "kserve")
      for scheduler in SCHEDULERS),
    ("single-gpu", "pool", "none"),
    ("kimi-k2-5p3d", "pool", "none"),
    ("gpt-oss-20b", "kserve016", "none"),
    ("pipeline-2", "kserve016", "kueue"),
    ("gpu-and-nic", "native", "none"),
    ("ray", "native", "none"),
    ("sglang-2", "native", "none"),
    ("sglang-2", "kserve", "none"),
    ("llama-cpp", "native", "none"),
    ("llama-cpp", "kserve", "none"),
    ("nim", "native", "none"),
    ("reranker", "native", "none"),
    ("reranker", "kserve", "none"),
    ("own-server", "native", "none"),
    ("whole-pod", "native", "none"),
    ("whole-pod", "kserve", "none"),
    ("tensor-16", "native", "none"),
    ("tensor-16", "kserve", "none"),
    ("prefill-decode", "native", "none"),
    ("prefill-decode", "kserve", "none"),
    ("prefill-decode-sglang", "native", "none"),
    ("v03-gang", "native", "none"),
    ("v03-gang", "native", "volcano"),
    ("v03-prefill-decode", "native", "none"),
    *(("pipeline-4", "racks", scheduler) for scheduler in SCHEDULERS),
    ("pipeline-4", "nvlink", "none"),
    ("kimi-k2-5p3d", "racks", "kai"),
    ("kimi-k2-5p3d", "racks", "volcano"),
    ("single-gpu", "dynamo", "none"),
    ("tensor-8", "dynamo", "kai"),
    ("prefill-decode", "dynamo", "none"),
    ("prefill-decode", "dynamo", "kai"),
    *((shape, "grove", "kai") for shape in ("pipeline-4", "data-parallel", "kimi-k2-5p3d", "sglang-2")),
]  # fmt: skip


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, _data):
        return True

    def represent_text(self, text):
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _Dumper.represent_text)


def as_text(result) -> str:
    """The objects in order, each under its key and what else the host is told of it."""
    parts = []
    for key, desired in result.desired.items():
        target = desired.target
        told = [f"ready when {target.ready_when.value}", *(["shared"] if target.shared else [])]
        told += [f"outlives {', '.join(desired.outlives)}"] if desired.outlives else []
        body = yaml.dump(target.manifest, Dumper=_Dumper, sort_keys=False, width=110)
        parts.append(f"# {key}: {'; '.join(told)}\n{body}")
    return "---\n".join(parts)


@pytest.mark.parametrize(("shape", "backend", "scheduler"), CASES)
def test_rendered_set_is_as_reviewed_and_well_formed(scene, problems, golden, shape, backend, scheduler):
    result = scene(shape, backend, scheduler).compose()
    assert not [found for item in result.desired.values() for found in problems(item.target.manifest)]
    assert result.conditions[0].status == "True", result.conditions[0].message
    golden.check(GOLDEN / f"{shape}.{backend}.{scheduler}.yaml", as_text(result))


def test_no_golden_file_is_left_over(golden):
    golden.check_folder(GOLDEN, {f"{shape}.{backend}.{scheduler}.yaml" for shape, backend, scheduler in CASES})
