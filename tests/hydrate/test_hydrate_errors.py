"""Every failure has its reason, and the reason its exit code."""

import errno
from threading import Timer

import pytest

from modelplane.api.outbound import OutboundRule
from modelplane.api.reasons import Reason
from modelplane.hydrate.errors import (
    HydrateError,
    OutOfSpaceError,
    SourceChangedError,
    SourceInvalidError,
    StoppedError,
    TryAgainError,
    as_hydrate_error,
    refusal_reason,
)
from modelplane.hydrate.settings import Stop


@pytest.mark.parametrize(
    ("error", "reason", "code"),
    [
        (HydrateError("x"), "StagingFailed", 1),
        (HydrateError("x", Reason.UNAUTHORIZED), "Unauthorized", 77),
        (HydrateError("x", Reason.SECRET_MISSING), "SecretMissing", 1),
        (OutOfSpaceError("x"), "NoSpace", 28),
        (SourceInvalidError("x"), "SourceInvalid", 76),
        (TryAgainError("x"), "SourceUnreachable", 75),
        (SourceChangedError("x"), "SourceUnreachable", 75),
        (StoppedError("x"), "PodFailed", 75),
        (as_hydrate_error(OSError(errno.EDQUOT, "quota")), "NoSpace", 28),
        (as_hydrate_error(OSError(errno.EROFS, "read-only")), "StagingFailed", 1),
    ],
)
def test_an_error_has_a_reason_and_a_code(error, reason, code):
    assert (error.reason.value, error.exit_code) == (reason, code)


def test_statuses_have_reasons():
    found = {status: refusal_reason(status) for status in (400, 401, 403, 404, 407, 410, 418, 451)}
    named = {status: reason.value for status, reason in found.items() if reason is not None}
    denied = dict.fromkeys((401, 403, 407, 451), "Unauthorized")
    assert named == {**denied, 404: "SourceNotFound", 410: "SourceNotFound"}


def test_a_deadline_is_no_fault_of_the_source():
    with pytest.raises(StoppedError) as raised:
        Stop(0.0).check()
    assert (raised.value.reason, str(raised.value)) == (Reason.STAGING_TIMED_OUT, "the deadline passed")


@pytest.mark.parametrize(("set_first", "words"), [(True, "stopped"), (False, "stopped: the source is slow")])
def test_what_fails_because_it_is_stopped_is_no_fault_of_the_source(set_first, words):
    stop = Stop()
    later = Timer(0.0 if set_first else 0.1, stop.set, ["stopped"])
    later.start()
    if set_first:
        later.join()
    with pytest.raises(StoppedError) as raised:
        stop.wait(60.0, TryAgainError("the source is slow"))
    assert str(raised.value) == words


@pytest.mark.parametrize(
    ("path", "fields", "reason"),
    [
        ("/missing", {}, Reason.SOURCE_NOT_FOUND),
        ("/model.bin", {"digest": f"sha256:{'0' * 64}"}, Reason.DIGEST_MISMATCH),
        ("/model.bin", {"digest": "sha256:0"}, Reason.INVALID),
        ("/", {}, Reason.INVALID),
    ],
)
def test_a_web_source_that_is_wrong(stage, server, path, fields, reason):
    url = server.add("/model.bin", b"weights").removesuffix("/model.bin")
    with pytest.raises(HydrateError) as raised:
        stage({"http": {"url": f"{url}{path}", **fields}})
    assert raised.value.reason is reason


def test_a_host_that_is_not_allowed(stage, server):
    url = server.add("/model.bin", b"weights")
    with pytest.raises(HydrateError) as raised:
        stage({"http": {"url": url}}, rule=OutboundRule())
    assert raised.value.reason is Reason.OUTBOUND_REFUSED
