"""Which images the registries of a simulated cluster have, and what a kubelet says about those they do not.

An image is pulled when its repository is known and its tag looks like one of a release:

- The repository has one of the words of `_KNOWN` in it, on any registry, so that a mirror has what its origin has.
- The tag is a version, `latest`, `main`, `stable`, begins with `nightly`, or is one of llama.cpp's, such as
  `server-cuda`. A digest always exists.

The annotation `sim.modelplane.ai/images` of an InferenceCluster adds to that and takes away: `acme/my-engine` is an
image that exists with any tag, `!vllm/vllm-openai:v0.27.1` one that does not, and `acme/secret=registry-key` one that
only the named pull Secret gives. The last entry that matches decides.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_KNOWN = (
    *(
        "vllm",
        "sglang",
        "lmdeploy",
        "text-generation-inference",
        "text-embeddings-inference",
        "tritonserver",
        "tensorrt-llm",
        "llama.cpp",
        "ollama",
    ),
    "nim/",
    *("library/busybox", "library/alpine", "library/python", "library/ubuntu", "library/debian", "curlimages/curl"),
    *("llm-d", "inference-scheduler", "picker", "routing-sidecar", "modelplane", "opentelemetry-collector"),
)
"""Engines, what people run before and beside them, and Modelplane's own."""
_TAG = re.compile(
    r"(v?\d+(\.\d+)*((rc|\.post|\.dev|a|b)\d+)*([-+][a-z0-9][\w.]*)*|latest|main|stable|nightly[\w.-]*"
    r"|(server|full|light)(-[a-z0-9.]+)*)"
)
_HOST = r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z0-9-]+(?=:\d))(?::\d+)?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_DEFAULT_HOST, _DEFAULT_FOLDER, _DEFAULT_TAG = "docker.io", "library", "latest"

INVALID_NAME, PULL_FAILED, BACK_OFF = "InvalidImageName", "ErrImagePull", "ImagePullBackOff"


@dataclass(frozen=True, slots=True)
class ImageReference:
    """A reference as a container runtime completes it."""

    host: str
    path: str
    tag: str
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.host}/{self.path}" + (f"@{self.digest}" if self.digest else f":{self.tag}")


@dataclass(frozen=True, slots=True)
class ImageRule:
    """One entry of the annotation."""

    image: str
    exists: bool = True
    secret: str = ""

    def matches(self, reference: ImageReference) -> bool:
        """By repository, with or without its registry; a tag is compared where the rule has one."""
        found = _REFERENCE.fullmatch(self.image)
        if found is None or found["host"] not in {None, reference.host} or found["tag"] not in {None, reference.tag}:
            return False
        return f"/{reference.path}".endswith(f"/{found['path']}")

    def __str__(self) -> str:
        return f"{'' if self.exists else '!'}{self.image}" + (f"={self.secret}" if self.secret else "")


@dataclass(frozen=True, slots=True)
class PullFault:
    """Why an image cannot be pulled: the reason of the waiting container, and its message."""

    reason: str
    message: str


def reference_of(image: str) -> ImageReference | None:
    """None where the reference is malformed."""
    found = _REFERENCE.fullmatch(image)
    if found is None:
        return None
    host, path = found["host"] or _DEFAULT_HOST, found["path"]
    if host == _DEFAULT_HOST and "/" not in path:
        path = f"{_DEFAULT_FOLDER}/{path}"
    return ImageReference(host, path, found["tag"] or _DEFAULT_TAG, found["digest"] or "")


def rules_of(text: str) -> tuple[ImageRule, ...]:
    """The entries of the annotation, separated by commas."""
    return tuple(_rule(entry.strip()) for entry in text.split(",") if entry.strip(" !"))


def _rule(entry: str) -> ImageRule:
    image, _, secret = entry.removeprefix("!").partition("=")
    return ImageRule(image.strip(), exists=not entry.startswith("!"), secret=secret.strip())


def rules_text(rules: Iterable[ImageRule]) -> str | None:
    """The value of the annotation; None removes it."""
    return ",".join(map(str, rules)) or None


def pull_fault(image: str, rules: Sequence[ImageRule], secrets: Iterable[str]) -> PullFault | None:
    """Why the image cannot be pulled with those pull Secrets; None when it can."""
    reference = reference_of(image)
    if reference is None:
        parsed = f'couldn\'t parse image name "{image}": invalid reference format'
        return PullFault(INVALID_NAME, f'Failed to apply default image tag "{image}": {parsed}')
    rule = next((rule for rule in reversed(rules) if rule.matches(reference)), None)
    if rule is not None and rule.exists and rule.secret and rule.secret not in set(secrets):
        return PullFault(PULL_FAILED, _unauthorized(reference))
    exists = _is_known(reference) if rule is None else rule.exists
    return None if exists else PullFault(PULL_FAILED, _not_found(reference))


def back_off_message(image: str, fault: PullFault) -> str:
    return f'Back-off pulling image "{image}": {fault.reason}: {fault.message}'


def _is_known(reference: ImageReference) -> bool:
    if not any(word in reference.path for word in _KNOWN):
        return False
    return bool(reference.digest) or _TAG.fullmatch(reference.tag) is not None


def _not_found(reference: ImageReference) -> str:
    resolved = f'failed to resolve reference "{reference}": {reference}: not found'
    return f'rpc error: code = NotFound desc = failed to pull and unpack image "{reference}": {resolved}'


def _unauthorized(reference: ImageReference) -> str:
    url = f"https://{reference.host}/v2/{reference.path}/manifests/{reference.digest or reference.tag}"
    status = f"unexpected status from HEAD request to {url}: 401 Unauthorized"
    resolved = f'failed to resolve reference "{reference}": {status}'
    return f'rpc error: code = Unknown desc = failed to pull and unpack image "{reference}": {resolved}'
