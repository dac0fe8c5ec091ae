"""Copies of the Secrets and ConfigMaps that the pods of a replica name, from the team's namespace to the cluster.

    not read yet             the workload is not created or changed
    missing, or of no use    the same, and the condition says which object and which key
    missing and optional     not copied; pods start without it
    there                    copied, and copied again when it changes

A copy stays while its original is missing. The composer reads which keys there are and never a value: the host copies
them (`CopiedFrom`). A copy has the type of its original only where kubelets ask for it, to pull images; others are
Opaque, because types such as service account tokens are managed by controllers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, holds, unknown
from modelplane.api.labels import COPIED_FROM
from modelplane.api.models import ModelReplica
from modelplane.api.objects import Manifest, mapping_at, text_at, with_metadata
from modelplane.api.reasons import Reason
from modelplane.compose.context import Context
from modelplane.compose.contract import ComposeRequest, CopiedFrom, Desired, Remote, Requirement
from modelplane.compose.pod_references import PodReference, ReferencedKind, copy_name, references_of

KEY_PREFIXES = ("secret-", "configmap-")
PULL_TYPES: Mapping[str, str] = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}
"""Types of Secrets that kubelets pull images with, and the key of each."""
_OPAQUE = "Opaque"
_EMPTY = "e30="
"""A document of JSON with nothing in it, in base64."""
_MISSING = {"Secret": Reason.SECRET_MISSING, "ConfigMap": Reason.CONFIG_MAP_MISSING}
_KIND = ConditionType.SECRETS_READY


@dataclass(frozen=True, slots=True)
class ReplicaReferences:
    originals: Mapping[str, Manifest]
    """What is there, by composition key."""
    condition: Condition

    @property
    def found(self) -> bool:
        """Whether pods can be created."""
        return self.condition.status is ConditionStatus.TRUE or self.condition.reason == Reason.SECRETS_COPYING


def reference_requirements(replica: ModelReplica) -> dict[str, Requirement]:
    namespace = replica.metadata.namespace
    return {
        _key(found): Requirement("v1", found.kind, name=found.name, namespace=namespace)
        for found in references_of(replica)
    }


def resolve_references(request: ComposeRequest[ModelReplica]) -> ReplicaReferences:
    references = references_of(request.resource)
    originals = {key: items[0] for key in map(_key, references) if (items := request.fetched(key))}
    problem = next((found for each in references if (found := _problem(request, each)) is not None), None)
    return ReplicaReferences(originals, problem or _copied(request, originals, named=bool(references)))


def copies(
    context: Context, request: ComposeRequest[ModelReplica], references: ReplicaReferences, users: tuple[str, ...]
) -> dict[str, Desired]:
    """By composition key. A copy whose original is missing stays as it is."""
    found: dict[str, Desired] = {}
    for reference in references_of(context.replica):
        key = _key(reference)
        original, seen = references.originals.get(key), request.observed.get(key)
        if original is not None:
            found[key] = Desired(_copy(context, reference, original), seen is not None and seen.ready, users)
        elif seen is not None:
            found[key] = Desired(seen.target, seen.ready, users)
    return found


def _key(reference: PodReference) -> str:
    return f"{reference.kind.lower()}-{reference.name}"


def _problem(request: ComposeRequest[ModelReplica], reference: PodReference) -> Condition | None:
    shown = f"{reference.kind} {request.resource.metadata.namespace}/{reference.name}"
    found = request.fetched(_key(reference))
    if found is None:
        return unknown(_KIND, Reason.UNRESOLVED, f"{shown} is not read yet")
    if reference.optional:
        return None
    if not found:
        needed = f" (key {reference.key})" if reference.key else ""
        message = f"{shown}{needed} does not exist; running pods stay"
        return fails(_KIND, _MISSING[reference.kind], message)
    keys = set(_keys(found[0]))
    if reference.key is not None and reference.key not in keys:
        return fails(_KIND, _MISSING[reference.kind], f"{shown} has no key {reference.key}; running pods stay")
    return _pull_problem(shown, found[0], keys) if reference.pulls_images else None


def _pull_problem(shown: str, secret: Manifest, keys: set[str]) -> Condition | None:
    kind = text_at(secret, "type") or _OPAQUE
    if kind not in PULL_TYPES:
        message = f"{shown} has type {kind}; imagePullSecrets take {next(iter(PULL_TYPES))}; running pods stay"
        return fails(_KIND, Reason.SECRET_INVALID, message)
    if PULL_TYPES[kind] not in keys:
        return fails(_KIND, Reason.SECRET_MISSING, f"{shown} has no key {PULL_TYPES[kind]}; running pods stay")
    return None


def _keys(original: Manifest) -> Iterator[str]:
    for field in ("data", "binaryData"):
        yield from mapping_at(original, field)


def _copied(request: ComposeRequest[ModelReplica], originals: Mapping[str, Manifest], *, named: bool) -> Condition:
    if not named:
        return holds(_KIND, Reason.NO_SECRETS)
    cluster = request.resource.spec.cluster_name
    there = [key for key in originals if (seen := request.observed.get(key)) is not None and seen.ready]
    shown = f"{len(there)} of {len(originals)} Secrets and ConfigMaps copied to {cluster}"
    if len(there) < len(originals):
        return fails(_KIND, Reason.SECRETS_COPYING, shown)
    return holds(_KIND, Reason.SECRETS_COPIED, shown)


def _copy(context: Context, reference: PodReference, original: Manifest) -> Remote:
    name = copy_name(context.name, reference.kind, reference.name)
    namespace = context.replica.metadata.namespace
    made = {**context.object("v1", reference.kind, name), **_type(reference.kind, original)}
    made = with_metadata(made, annotations={COPIED_FROM: f"{namespace}/{reference.name}"})
    source = CopiedFrom(
        "v1",
        reference.kind,
        reference.name,
        namespace,
        tuple(field for field in ("data", "binaryData") if mapping_at(original, field)),
        text_at(original, "metadata", "resourceVersion"),
    )
    return replace(context.remote(made), copied_from=source)


def _type(kind: ReferencedKind, original: Manifest) -> dict[str, object]:
    if kind == "ConfigMap":
        return {}
    given = text_at(original, "type")
    # Kubernetes creates no Secret of these types without its key.
    return {"type": given, "data": {PULL_TYPES[given]: _EMPTY}} if given in PULL_TYPES else {"type": _OPAQUE}
