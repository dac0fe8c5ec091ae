"""Which images a simulated cluster can pull, and what its kubelets say about the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.sim.cluster.images import (
    ImageReference,
    ImageRule,
    PullFault,
    back_off_message,
    pull_fault,
    reference_of,
    rules_of,
    rules_text,
)

DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("vllm/vllm-openai:v0.27.1", ImageReference("docker.io", "vllm/vllm-openai", "v0.27.1")),
        ("nginx", ImageReference("docker.io", "library/nginx", "latest")),
        ("localhost/a:1", ImageReference("localhost", "a", "1")),
        ("registry:5000/team/a", ImageReference("registry:5000", "team/a", "latest")),
        ("r.example:5000/team/a:1", ImageReference("r.example:5000", "team/a", "1")),
        (f"r.example/a:1@{DIGEST}", ImageReference("r.example", "a", "1", DIGEST)),
        ("Team/a:1", None),
        ("a::1", None),
        ("a:", None),
        ("a b", None),
        ("a@sha256:12", None),
        ("", None),
        ("https://r.example/a", None),
    ],
)
def test_references(image, expected):
    assert reference_of(image) == expected


@pytest.mark.parametrize(
    "image",
    [
        "vllm/vllm-openai:v0.27.1",
        "vllm/vllm-openai",
        "vllm/vllm-openai:nightly-abc",
        "ghcr.io/ggml-org/llama.cpp:server-cuda-b6900",
        "ghcr.io/ggml-org/llama.cpp:server",
        "nvcr.io/nim/meta/llama-3.1-8b-instruct:2.0.8",
        "mirror.example:5000/hub/vllm/vllm-openai:v0.27.1",
        "lmsysorg/sglang:v0.5.18-cu129",
        "llm-d/llm-d-inference-scheduler:v0.6.0",
        f"acme/my-vllm:nope@{DIGEST}",
    ],
)
def test_engines_and_what_stands_beside_them_are_pulled(image):
    assert pull_fault(image, (), ()) is None


def not_found(image):
    resolved = f'failed to resolve reference "{image}": {image}: not found'
    return PullFault(
        "ErrImagePull", f'rpc error: code = NotFound desc = failed to pull and unpack image "{image}": {resolved}'
    )


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("nosuch/image:nope", "docker.io/nosuch/image:nope"),
        ("vllm/vllm-openai:v0.27.l", "docker.io/vllm/vllm-openai:v0.27.l"),
        ("vllm/vllm-openai:nope", "docker.io/vllm/vllm-openai:nope"),
        (f"r.example/nosuch@{DIGEST}", f"r.example/nosuch@{DIGEST}"),
    ],
)
def test_other_images_are_not_found(image, full):
    assert pull_fault(image, (), ()) == not_found(full)


def test_a_malformed_name_is_invalid():
    message = 'Failed to apply default image tag "A:b:c": couldn\'t parse image name "A:b:c": invalid reference format'
    assert pull_fault("A:b:c", (), ()) == PullFault("InvalidImageName", message)


def test_the_last_rule_that_matches_decides():
    rules = rules_of("acme/engine, !acme/engine:2, !vllm/vllm-openai:v1")
    full = "r.example/acme/engine"
    assert [pull_fault(f"{full}:{tag}", rules, ()) for tag in "12"] == [None, not_found(f"{full}:2")]
    assert pull_fault("vllm/vllm-openai:v1", rules, ()) == not_found("docker.io/vllm/vllm-openai:v1")
    assert pull_fault("vllm/vllm-openai:v2", rules, ()) is None
    assert pull_fault("other-acme/engine:1", rules, ()) == not_found("docker.io/other-acme/engine:1")


def test_a_private_image_needs_its_pull_secret():
    rules = rules_of("acme/engine=key")
    url = "https://r.example/v2/acme/engine/manifests/1"
    status = f"unexpected status from HEAD request to {url}: 401 Unauthorized"
    image = "r.example/acme/engine:1"
    message = (
        f'rpc error: code = Unknown desc = failed to pull and unpack image "{image}": '
        f'failed to resolve reference "{image}": {status}'
    )
    assert pull_fault(image, rules, ("other",)) == PullFault("ErrImagePull", message)
    assert pull_fault(image, rules, ("key",)) is None


def test_the_back_off_names_the_image_and_the_failure():
    assert back_off_message("a:1", PullFault("ErrImagePull", "no")) == 'Back-off pulling image "a:1": ErrImagePull: no'


_PARTS = st.from_regex(r"[a-z0-9]{1,8}(/[a-z0-9]{1,8}){0,2}(:[a-z0-9]{1,5})?", fullmatch=True)


@given(st.lists(st.builds(ImageRule, _PARTS, exists=st.booleans(), secret=st.sampled_from(["", "key"]))))
def test_rules_survive_the_annotation(rules):
    assert rules_of(rules_text(rules) or "") == tuple(rules)


@given(st.text(max_size=20))
def test_any_text_is_pulled_or_refused(image):
    fault = pull_fault(image, (), ())
    assert fault is None or fault.reason in {"ErrImagePull", "InvalidImageName"}
