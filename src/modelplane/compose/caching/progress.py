"""What the loader said: how far it is, or why it stopped.

    the Job's conditions        it completed, or failed and with which exit code; every host sees these
    the pod's last words        key, revision and bytes, or the reason in words; hosts that see pods have them
    the last line of its log    how far it is; a host that reads it puts it into the annotation PROGRESS

The loader has no credentials for the cluster's API, so it cannot report by itself.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from modelplane.api.labels import PROGRESS
from modelplane.api.meta import Timestamp
from modelplane.api.objects import Manifest, annotations_of, items_at, text_at
from modelplane.api.reasons import Reason
from modelplane.compose.causes import Cause, in_words, last_line

FAILED = "Failed"
"""The phase of a loader that ended without success."""
EXIT_FAILED, EXIT_NO_SPACE, EXIT_TRY_AGAIN = 1, 28, 75
PERMANENT = (EXIT_FAILED, 2, EXIT_NO_SPACE)
"""Exit codes of the loader that another attempt at once would repeat; 2 is a wrong argument."""
_EXIT_CODE = re.compile(r"failed with exit code (\d+)")
_BY_CODE: Mapping[int, Reason] = {EXIT_NO_SPACE: Reason.NO_SPACE}
_LOADER_REASONS = {"OutOfSpace": Reason.NO_SPACE, "TryAgain": Reason.SOURCE_UNREACHABLE}
_WORDS = (
    (re.compile(r"(?i)\b40[13]\b|unauthori[sz]ed|forbidden|access denied"), Reason.UNAUTHORIZED),
    (re.compile(r"(?i)\b404\b|not found|no such|does not exist"), Reason.SOURCE_NOT_FOUND),
    (re.compile(r"(?i)sha-?256|digest|checksum"), Reason.DIGEST_MISMATCH),
    (re.compile(r"(?i)a (private|loopback|link-local|reserved) address|internal network"), Reason.OUTBOUND_REFUSED),
)
_BY_WORD = {reason.value: reason for reason in Reason}


class LoaderStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One line of the loader."""

    phase: str = ""
    bytes: int = 0
    total: int = 0
    rate: int = 0
    eta: int | None = None
    key: str | None = None
    revision: str | None = None
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


def _parse(line: str) -> LoaderStatus | None:
    try:
        return msgspec.json.decode(line, type=LoaderStatus)
    except msgspec.DecodeError:
        return None


def is_complete(job: Manifest) -> bool:
    return _condition(job, "Complete") is not None


def completed_at(job: Manifest) -> str | None:
    return text_at(job, "status", "completionTime") or None


def failure(job: Manifest, said: LoaderStatus | None) -> Cause | None:
    """Why a Job failed for good; None while it has not."""
    condition = _condition(job, "Failed")
    if condition is None:
        return None
    words = text_at(condition, "message")
    code = _EXIT_CODE.search(words)
    reason = _BY_CODE.get(int(code[1])) if code else None
    if text_at(condition, "reason") == "DeadlineExceeded":
        reason = Reason.STAGING_TIMED_OUT
    stated = failure_cause(said) if said is not None and said.phase == FAILED else Cause(Reason.STAGING_FAILED, words)
    found = reason if reason is not None and stated.reason is Reason.STAGING_FAILED else stated.reason
    at = text_at(condition, "lastTransitionTime")
    return Cause(found, in_words(stated.message or words), Timestamp(at) if at else None)


def failure_cause(said: LoaderStatus) -> Cause:
    """Why the loader ended, by its reason or by its words."""
    message = said.message or ""
    stated = _BY_WORD.get(said.reason or "") or _LOADER_REASONS.get(said.reason or "")
    spoken = next((reason for pattern, reason in _WORDS if pattern.search(message)), Reason.STAGING_FAILED)
    return Cause(stated or spoken, in_words(message))


def _condition(job: Manifest, kind: str) -> Manifest | None:
    for condition in items_at(job, "status", "conditions"):
        if condition.get("type") == kind and condition.get("status") == "True":
            return condition
    return None
