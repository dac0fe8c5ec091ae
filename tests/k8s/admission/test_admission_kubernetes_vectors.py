"""Verdicts of the API server's own code (apiextensions-apiserver 0.36.3) on generated schemas and values.

Each vector has a schema, a value, and what Kubernetes made of it: what it pruned, which fields it called unknown, the
value with defaults, and whether that was valid.
"""

import json
import re
from pathlib import Path

import pytest

from modelplane.k8s.admission.schema import canonical, check
from modelplane.k8s.admission.structure import apply_defaults, find_unknown, prune

VECTORS = json.loads((Path(__file__).parent / "kubernetes_vectors.json").read_text(encoding="utf-8"))


def dotted(field: str) -> str:
    """Kubernetes writes the keys of maps after a dot in these messages."""
    return re.sub(r"\[([^\]\d][^\]]*)\]", r".\1", field)


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_as_kubernetes(vector):
    schema, value = vector["schema"], vector["value"]
    before = canonical(value)
    pruned = prune(value, schema)
    assert pruned == vector["pruned"]
    assert sorted(dotted(problem.field) for problem in find_unknown(value, schema)) == sorted(vector["unknown"])
    defaulted = apply_defaults(pruned, schema)
    assert defaulted == vector["defaulted"]
    assert (check(defaulted, schema) == ()) is vector["valid"]
    assert canonical(value) == before


def test_there_are_enough_of_both():
    verdicts = [vector["valid"] for vector in VECTORS]
    assert verdicts.count(True) >= 100
    assert verdicts.count(False) >= 100
