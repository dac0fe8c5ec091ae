"""Revisions of a ModelDeployment: the fields that pods depend on, recorded in its status each time that they change.

A revision has a number, a hash and the fields themselves. A template that was recorded before gets a new number and
keeps its hash, as with Deployments. Replicas carry the hash as a label, so services can select a revision.

While the rollout is paused nothing is recorded, and the deployment is composed with the newest revision: replicas that
are added meanwhile start with that.
"""

import base64
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from modelplane.api.codec import decode, encode
from modelplane.api.errors import InputError
from modelplane.api.models import ModelDeployment, ModelDeploymentSpec, TemplateRevision
from modelplane.api.objects import Json, Manifest, as_mapping, items_at, text_at
from modelplane.api.timestamps import timestamp

CHANGE_CAUSE = "kubernetes.io/change-cause"
TEMPLATE_FIELDS = (
    "priority",
    "tolerations",
    "caches",
    "warmUp",
    "serving",
    "nodeSelector",
    "workers",
    "decode",
    "prefill",
    "engines",
    "template",
)
"""Fields of the spec that pods depend on."""
MAX_TEMPLATE = 131_072
"""Characters of a recorded template. A larger one is not recorded, and cannot be restored."""
_MAX_UNPACKED = 16 * 1024 * 1024
_MAX_IMAGES, _MAX_IMAGE, _MAX_CAUSE = 8, 512, 256
_HASH_LENGTH = 10


def template_of(spec: ModelDeploymentSpec) -> Json:
    """Without defaults: a field that a newer version adds does not make a new revision."""
    written = encode(spec)
    return {name: written[name] for name in TEMPLATE_FIELDS if name in written}


def template_hash(template: Manifest) -> str:
    return hashlib.sha256(msgspec.json.encode(template, order="sorted")).hexdigest()[:_HASH_LENGTH]


def pack(template: Manifest) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(template, order="sorted"), 9)).decode()


def unpack(text: str) -> Json:
    """The template of a revision. Raises InputError for what none was recorded as."""
    try:
        packed = base64.b64decode(text, validate=True)
        plain = zlib.decompressobj().decompress(packed, _MAX_UNPACKED)
        return msgspec.json.decode(plain, type=dict[str, object])
    except (ValueError, zlib.error, msgspec.DecodeError):
        raise InputError("the template of the revision cannot be read") from None


def effective(deployment: ModelDeployment) -> ModelDeployment:
    """The deployment as its replicas are to be: while it is paused, with the template of the newest revision."""
    known = deployment.status.revisions
    if not deployment.spec.rollout.paused or not known:
        return deployment
    return with_revision(deployment, known[-1]) or deployment


def with_revision(deployment: ModelDeployment, revision: TemplateRevision) -> ModelDeployment | None:
    """The deployment with the template of a revision; None where that cannot be read."""
    rest = {name: value for name, value in encode(deployment.spec).items() if name not in TEMPLATE_FIELDS}
    try:
        spec = decode(ModelDeploymentSpec, {**rest, **unpack(revision.template)})
    except InputError:
        return None
    return msgspec.structs.replace(deployment, spec=spec)


def recorded(deployment: ModelDeployment, now: float) -> tuple[TemplateRevision, ...]:
    """The revisions with that of the deployment, oldest first."""
    known = deployment.status.revisions
    template = template_of(deployment.spec)
    found = template_hash(template)
    if known and known[-1].hash_ == found:
        return _pruned(known, deployment)
    number = known[-1].revision + 1 if known else 1
    before = next((revision for revision in known if revision.hash_ == found), None)
    if before is not None:
        rest = tuple(revision for revision in known if revision is not before)
        return _pruned((*rest, msgspec.structs.replace(before, revision=number)), deployment)
    packed = pack(template)
    made = TemplateRevision(
        revision=number,
        hash_=found,
        created_at=timestamp(now) if now else None,
        change_cause=deployment.metadata.annotations.get(CHANGE_CAUSE, "")[:_MAX_CAUSE] or None,
        images=tuple(dict.fromkeys(images_of(template)))[:_MAX_IMAGES],
        template=packed if len(packed) <= MAX_TEMPLATE else "",
    )
    return _pruned((*known, made), deployment)


def _pruned(revisions: Sequence[TemplateRevision], deployment: ModelDeployment) -> tuple[TemplateRevision, ...]:
    """The stable revision stays, whatever the limit: a rollout that is halted goes back to it."""
    kept = revisions[-1 - deployment.spec.rollout.revision_history_limit :]
    known = deployment.status.rollout
    stable = [each for each in revisions if known is not None and each.hash_ == known.stable and each not in kept]
    return (*stable, *kept)


def images_of(template: Manifest) -> Iterator[str]:
    for pods in pod_templates(template):
        for container in items_at(pods, "spec", "containers"):
            yield text_at(container, "image")[:_MAX_IMAGE]


def pod_templates(template: Manifest) -> Iterator[Manifest]:
    """The pod templates in any shape of a deployment."""
    for holder in (template, as_mapping(template.get("decode")), as_mapping(template.get("prefill"))):
        workers = holder.get("workers")
        if isinstance(workers, Mapping):
            yield as_mapping(workers.get("template"))
    inner = as_mapping(as_mapping(template.get("template")).get("spec"))
    for holder in (template, inner):
        for engine in items_at(holder, "engines"):
            for member in items_at(engine, "members"):
                yield as_mapping(member.get("template"))
