"""The Job that stages an artifact: our loader, with an argument vector, and nothing else in the pod.

It runs without privileges, on a read-only root, and without credentials for the cluster's API. Its exit code says
whether another attempt may help: the Job ends at once where it does not. A pod that is evicted does not count.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Self

from modelplane.api.labels import CACHE, STAGED_ON
from modelplane.api.loader_exits import PERMANENT
from modelplane.api.models import InferenceCluster, ModelCache
from modelplane.api.names import make_name
from modelplane.api.objects import Manifest, manifest, with_metadata
from modelplane.compose.caching.source import CacheSource
from modelplane.compose.caching.storage import claim_name
from modelplane.compose.context import remote_namespace
from modelplane.compose.tenancy import OWN_SECURITY

LOADER = "loader"
VOLUME_PATH = "/volume"
_SECRET_PATH, _FILES_PATH = "/run/credentials", "/run/files"
_TERMINATION_LOG = "/dev/termination-log"
LOADER_USER = 65532
DEADLINE_S = 24 * 3600
"""How long one attempt may take, with all its pods."""
_BACKOFF_LIMIT = 6
_TTL_S = 3600
"""A Job that ended is removed by us; its cluster removes it where we do not see that."""
_RESOURCES = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}}


@dataclass(frozen=True, slots=True)
class StagingAttempt:
    """What makes one Job differ from another for the same source: how many failed before, and what it reads."""

    number: int
    inputs: str = ""
    """A hash of what it reads beside the source, such as the Secret and its key; another one is another attempt."""

    @property
    def suffix(self) -> str:
        return f"{self.number}.{self.inputs}" if self.inputs else str(self.number)

    @classmethod
    def parse(cls, suffix: str) -> Self:
        number, _, inputs = suffix.partition(".")
        return cls(int(number) if number.isdecimal() else 0, inputs)


def inputs_hash(*versions: str) -> str:
    known = [version for version in versions if version]
    return hashlib.sha256("/".join(known).encode()).hexdigest()[:8] if known else ""


@dataclass(frozen=True, slots=True)
class JobRequest:
    cache: ModelCache
    source: CacheSource
    cluster: InferenceCluster
    image: str
    attempt: StagingAttempt
    allowed: tuple[str, ...] = ()
    """Networks and hosts that the platform allows beside public ones."""
    secret: str | None = None
    """Name of the copy of the Secret."""
    config_map: str | None = None
    revision: str | None = None
    """What the source was resolved to on another cluster."""
    claim_uid: str = ""
    """Of the claim to fill, where it was observed."""


def job(request: JobRequest) -> Manifest:
    cache = request.cache.metadata
    name = make_name(f"cache-{cache.name}", cache.namespace, cache.name, request.source.key, request.attempt.suffix)
    labels = {CACHE: cache.name}
    spec: dict[str, object] = {
        "backoffLimit": _BACKOFF_LIMIT,
        "activeDeadlineSeconds": DEADLINE_S,
        "ttlSecondsAfterFinished": _TTL_S,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": _failure_rules()},
        "template": {"metadata": {"labels": labels}, "spec": _pod(request)},
    }
    made = manifest("batch/v1", "Job", name, namespace=remote_namespace(cache.namespace), labels=labels, spec=spec)
    # A Job that is deleted without a policy leaves its pods behind, and a pod, even a completed one, holds its claim.
    kept = with_metadata(made, finalizers=["foregroundDeletion"])
    return with_metadata(kept, annotations={STAGED_ON: request.claim_uid}) if request.claim_uid else kept


def _failure_rules() -> list[dict[str, object]]:
    codes = {"containerName": LOADER, "operator": "In", "values": sorted(PERMANENT)}
    evicted = [{"type": "DisruptionTarget", "status": "True"}]
    return [{"action": "FailJob", "onExitCodes": codes}, {"action": "Ignore", "onPodConditions": evicted}]


def _pod(request: JobRequest) -> dict[str, object]:
    scheduling = request.cluster.spec.scheduling
    spec: dict[str, object] = {
        "restartPolicy": "Never",
        **pod_security(),
        "containers": [_container(request)],
        "volumes": _volumes(request),
    }
    return {**spec, **({"priorityClassName": scheduling.default_priority} if scheduling.default_priority else {})}


def pod_security() -> dict[str, object]:
    """A pod of the loader: no privileges, and no credentials for the cluster's API."""
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": LOADER_USER,
            "runAsGroup": LOADER_USER,
            "fsGroup": LOADER_USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _container(request: JobRequest) -> dict[str, object]:
    mounts: list[dict[str, object]] = [{"name": "volume", "mountPath": VOLUME_PATH}]
    mounts += [
        {"name": name, "mountPath": path, "readOnly": True}
        for name, path, given in _inputs(request)
        if given is not None
    ]
    return {
        "name": LOADER,
        "image": request.image,
        "args": list(arguments(request)),
        "resources": dict(_RESOURCES),
        "securityContext": dict(OWN_SECURITY),
        "terminationMessagePath": _TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def _inputs(request: JobRequest) -> tuple[tuple[str, str, str | None], ...]:
    return ("credentials", _SECRET_PATH, request.secret), ("files", _FILES_PATH, request.config_map)


def _volumes(request: JobRequest) -> list[dict[str, object]]:
    name = claim_name(request.cache.metadata.namespace, request.source.key)
    volumes: list[dict[str, object]] = [{"name": "volume", "persistentVolumeClaim": {"claimName": name}}]
    if request.secret is not None:
        volumes.append({"name": "credentials", "secret": {"secretName": request.secret, "defaultMode": 0o440}})
    if request.config_map is not None:
        volumes.append({"name": "files", "configMap": {"name": request.config_map}})
    return volumes


def arguments(request: JobRequest) -> tuple[str, ...]:
    """What the loader is told."""
    document, secret = dict(request.source.document), request.source.secret
    if secret is not None and secret.key:
        document[secret.field] = {"key": secret.key}
    if request.revision is not None and request.source.block == "huggingFace":
        document["revision"] = request.revision
    words = [
        "--source",
        json.dumps({request.source.block: document}, sort_keys=True, separators=(",", ":")),
        *("--into", VOLUME_PATH, "--cache-key", request.source.key),
        *("--status-file", _TERMINATION_LOG, "--deadline", str(DEADLINE_S)),
    ]
    if secret is not None:
        words += ["--credentials-dir", _SECRET_PATH]
    if request.config_map is not None:
        words += ["--files-dir", _FILES_PATH]
    for entry in request.allowed:
        words += ["--outbound-allow", entry]
    return tuple(words)
