"""Sources as the API spells them; a mistake is one sentence that names the field."""

import json

import pytest

from modelplane.hydrate.errors import HydrateError
from modelplane.hydrate.sources import (
    BucketSource,
    FolderSource,
    HuggingFaceSource,
    InlineSource,
    OciSource,
    SecretKey,
    read_source,
)

HUB = HuggingFaceSource(repo="Qwen/Qwen3-8B", revision="v1", include=("*.json",))
BLOCK = {"huggingFace": {"repo": "Qwen/Qwen3-8B", "revision": "v1", "include": ["*.json"]}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (BLOCK, HUB),
        ({"source": "HuggingFace", **BLOCK, "storage": {"type": "PVC"}}, HUB),
        ({"artifact": {"kind": "Weights", "source": BLOCK}}, HUB),
        ({"kind": "ModelCache", "spec": {"source": "HuggingFace", **BLOCK}}, HUB),
        ({"inline": {"filename": "a", "content": "b"}}, InlineSource(filename="a", content="b")),
        (
            {"gcs": {"uri": "gs://models/qwen", "secretRef": {"name": "hmac"}}},
            BucketSource(
                uri="s3://models/qwen",
                endpoint="https://storage.googleapis.com",
                region="auto",
                secret_ref=SecretKey(name="hmac"),
            ),
        ),
        ({"oci": {"reference": "r.example/a/b:v1"}}, OciSource(reference="r.example/a/b:v1")),
    ],
)
def test_documents_are_read(document, expected, tmp_path):
    assert read_source(json.dumps(document)) == expected
    (tmp_path / "source.json").write_text(json.dumps(document))
    assert read_source(f"@{tmp_path}/source.json") == expected


def test_a_folder_has_a_short_form():
    assert read_source("file:///srv/weights") == FolderSource(path="/srv/weights")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "--source is not JSON"),
        ("[]", "--source is not a JSON object"),
        ("{}", "--source needs exactly one of huggingFace, s3, .*; it has none"),
        ('{"inline": {}, "s3": {}}', "it has s3, inline"),
        ('{"huggingFace": {}}', "huggingFace: Object missing required field `repo`"),
        ('{"huggingFace": {"repo": "a", "revison": "b"}}', "unknown field `revison`"),
        ('{"huggingFace": {"repo": 3}}', r"Expected `str`, got `int` - at `\$.repo`"),
    ],
)
def test_mistakes_are_named(text, says):
    with pytest.raises(HydrateError, match=says):
        read_source(text)
