"""What is masked of objects and texts, and what on-call engineers go on to read."""

import pytest

from modelplane.views.masking import MASK, CredentialMask, names_credential


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vllm serve --api-key=abc --port=80", f"vllm serve --api-key={MASK} --port=80"),
        ("export HF_TOKEN='a b'; run", f"export HF_TOKEN={MASK}; run"),
        ("password = x, user=y", f"password = {MASK}, user=y"),
        ("--max-num-batched-tokens=8192", "--max-num-batched-tokens=8192"),
        ("--tokenizer-mode=auto", "--tokenizer-mode=auto"),
        ('{"apiKey": "abc", "key": "default/chat"}', f'{{"apiKey": "{MASK}", "key": "default/chat"}}'),
        (r'"{\"token\": \"abc\"}"', rf'"{{\"token\": "{MASK}"}}"'),
        ("curl -H 'Authorization: Basic abc=' x", f"curl -H 'Authorization: {MASK}' x"),
        ("got Bearer abcdefgh1, refused", f"got Bearer {MASK}, refused"),
        ("Cookie: a=1; b=2\nnext", f"Cookie: {MASK}\nnext"),
        ("a -----BEGIN PRIVATE KEY-----\nMIIcut", f"a {MASK}"),
        ("https://user:pw@host/a b", f"https://{MASK}@host/a b"),
        ("https://host/model?X-Signature=1&b=2 x", f"https://host/model?{MASK} x"),
        ("hf_abcdefghijklmnop is wrong", f"{MASK} is wrong"),
        ("a -----BEGIN RSA PRIVATE KEY-----\nx\n-----END RSA PRIVATE KEY----- b", f"a {MASK} b"),
        ("Secret default/hf-token has no key token", "Secret default/hf-token has no key token"),
        ("image registry.example/a@sha256:0123", "image registry.example/a@sha256:0123"),
    ],
)
def test_texts(text, expected):
    mask = CredentialMask()
    assert mask.text(text) == expected
    assert mask.text(expected) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("OPENAI_API_KEY", "x", True),
        ("HF_TOKEN", "x", True),
        ("API_TOKENS", "a,b", True),
        ("client-secret", "x", True),
        ("DB_PASSWORD", "1", True),
        ("MAX_TOKENS", "4096", False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("NCCL_DEBUG", "INFO", False),
    ],
)
def test_names_of_credentials(name, value, expected):
    assert names_credential(name, value) is expected


ITEM = {
    "kind": "ModelDeployment",
    "metadata": {
        "name": "chat",
        "managedFields": [{"manager": "x"}],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": '{"a": 1}',
            "modelplane.ai/restarted-at": "now",
            "evilmodelplane.ai/x": "copy",
        },
    },
    "spec": {
        "env": [
            {"name": "HF_TOKEN", "value": "short"},
            {"name": "OTHER_KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "apiKey"}}},
            {"name": "MODE", "value": "fast"},
        ],
        "args": ["--api-key", "a-long-value", "--port", "80", "--api-key", "--enforce-eager"],
        "values": {"auth": {"adminPassword": "hunter2hunter2"}, "topologyKey": "zone"},
        "warmUp": {"requests": [{"path": "/v1/x", "body": "{}"}]},
    },
    "status": {
        "revisions": [{"hash": "1", "template": "eJw="}],
        "message": "refused a-long-value and hunter2hunter2",
        "replicas": 2,
    },
}


def test_objects():
    assert CredentialMask.of([ITEM]).item(ITEM) == {
        "kind": "ModelDeployment",
        "metadata": {
            "name": "chat",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": MASK,
                "modelplane.ai/restarted-at": "now",
                "evilmodelplane.ai/x": MASK,
            },
        },
        "spec": {
            "env": [
                {"name": "HF_TOKEN", "value": MASK},
                {"name": "OTHER_KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "apiKey"}}},
                {"name": "MODE", "value": "fast"},
            ],
            "args": ["--api-key", MASK, "--port", "80", "--api-key", "--enforce-eager"],
            "values": {"auth": {"adminPassword": MASK}, "topologyKey": "zone"},
            "warmUp": {"requests": [{"path": "/v1/x", "body": MASK}]},
        },
        "status": {
            "revisions": [{"hash": "1", "template": MASK}],
            "message": f"refused {MASK} and {MASK}",
            "replicas": 2,
        },
    }


def test_a_value_that_one_object_names_is_masked_in_every_text():
    mask = CredentialMask.of([ITEM])
    assert mask == CredentialMask(("hunter2hunter2", "a-long-value"))
    assert mask.text("engine got a-long-value, short") == f"engine got {MASK}, short"


@pytest.mark.parametrize(
    "word",
    ["a", "key", "token.", "http://", "a://", '"secret', "'", "= ", "bearer ", "-----BEGIN PRIVATE KEY-----", "key "],
)
def test_a_long_text_takes_time_by_its_length(word):
    """A quadratic pattern takes hours here, which the time limit of a test ends."""
    text = word * (60_000 // len(word))
    assert len(CredentialMask().text(text)) <= len(text) + len(MASK)
