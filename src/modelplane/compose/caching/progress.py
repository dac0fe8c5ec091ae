"""What the loader said: how far it is, or why it stopped.

    the Job's conditions        it completed, or failed and with which exit code, which has the reason; on every host
    the pod's last words        key, revision and bytes, or the reason in words; hosts that see pods have them
    the last line of its log    how far it is; a host that reads it puts it into the annotation PROGRESS

The loader has no credentials for the cluster's API, so it cannot report by itself.
"""

import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

from modelplane.api.labels import CACHE, PROGRESS
from modelplane.api.loader_exits import EXIT_REASONS
from modelplane.api.meta import Timestamp
from modelplane.api.objects import Manifest, annotations_of, items_at, mapping_at, text_at
from modelplane.api.reasons import Reason
from modelplane.compose.causes import Cause, in_words, last_line
from modelplane.compose.pod_causes import trimmed

FAILED = "Failed"
"""The phase of a loader that ended without success."""
_EXIT_CODE = re.compile(r"failed with exit code (\d+)")
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Word = Annotated[str, msgspec.Meta(max_length=128)]
_BY_WORD = {reason.value: reason for reason in Reason}


class LoaderStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One line of the loader. What the status of a ModelCache cannot hold is no such line."""

    phase: str = ""
    bytes: _Count = 0
    total: _Count = 0
    rate: _Count = 0
    eta: _Count | None = None
    key: _Word | None = None
    revision: _Word | None = None
    reason: str | None = None
    message: str | None = None


def newest_status(pods: Iterable[Manifest]) -> LoaderStatus | None:
    """What the newest pod says that says something."""
    said = [(text_at(pod, "metadata", "creationTimestamp"), found) for pod in pods if (found := _said(pod)) is not None]
    return max(said, key=lambda item: item[0])[1] if said else None


def _said(pod: Manifest) -> LoaderStatus | None:
    for text in (*_last_words(pod), annotations_of(pod).get(PROGRESS, "")):
        found = _parse(last_line(text))
        if found is not None:
            return found
    return None


def _last_words(pod: Manifest) -> Iterable[str]:
    for container in items_at(pod, "status", "containerStatuses"):
        for state in ("state", "lastState"):
            yield text_at(container, state, "terminated", "message")


def trimmed_loader(pod: Manifest) -> dict[str, object]:
    """What of a loader's pod the status of its cache depends on: its cause, and its last words as they are."""
    found = trimmed(pod)
    metadata = mapping_at(found, "metadata")
    words = next((line for text in _last_words(pod) if _parse(line := last_line(text)) is not None), "")
    return {
        **found,
        "metadata": {**metadata, **_identity(pod), **({"annotations": {PROGRESS: words}} if words else {})},
    }


def with_progress(pod: Manifest, line: str) -> dict[str, object]:
    """A trimmed pod with the last line of its log."""
    return {**pod, "metadata": {**mapping_at(pod, "metadata"), "annotations": {PROGRESS: line}}}


def _identity(pod: Manifest) -> dict[str, object]:
    labels = {CACHE: text_at(pod, "metadata", "labels", CACHE)}
    return {"labels": labels, "creationTimestamp": text_at(pod, "metadata", "creationTimestamp")}


def _parse(line: str) -> LoaderStatus | None:
    try:
        return msgspec.json.decode(line, type=LoaderStatus)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def is_complete(job: Manifest) -> bool:
    return _condition(job, "Complete") is not None


def has_ended(job: Manifest) -> bool:
    return is_complete(job) or _condition(job, FAILED) is not None


def completed_at(job: Manifest) -> str | None:
    return text_at(job, "status", "completionTime") or None


def failure(job: Manifest, said: LoaderStatus | None) -> Cause | None:
    """Why a Job failed for good; None while it has not."""
    condition = _condition(job, FAILED)
    if condition is None:
        return None
    words = text_at(condition, "message")
    code = _EXIT_CODE.search(words)
    coded = EXIT_REASONS.get(int(code[1]), Reason.STAGING_FAILED) if code else Reason.STAGING_FAILED
    if text_at(condition, "reason") == "DeadlineExceeded":
        coded = Reason.STAGING_TIMED_OUT
    stated = failure_cause(said) if said is not None and said.phase == FAILED else Cause(coded, words)
    found = coded if stated.reason is Reason.STAGING_FAILED else stated.reason
    at = text_at(condition, "lastTransitionTime")
    return Cause(found, in_words(stated.message or words), Timestamp(at) if at else None)


def failure_cause(said: LoaderStatus) -> Cause:
    """Why the loader ended, in its own word."""
    return Cause(_BY_WORD.get(said.reason or "", Reason.STAGING_FAILED), in_words(said.message or ""))


def _condition(job: Manifest, kind: str) -> Manifest | None:
    for condition in items_at(job, "status", "conditions"):
        if condition.get("type") == kind and condition.get("status") == "True":
            return condition
    return None
