"""The options of a request, read from its query and checked as the API server does."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from modelplane.apiserver.failures import ApiError, bad_request, invalid_option
from modelplane.apiserver.protobuf import MAGIC, read_protobuf
from modelplane.apiserver.tables import Include
from modelplane.k8s.admission.admit import UnknownFields
from modelplane.k8s.admission.problems import CauseType
from modelplane.k8s.deletion import Propagation

Query = Mapping[str, str]

_MANAGER_LONGEST: Final = 128
_FALSE: Final = {"", "false", "0"}
_LIST_OPTIONS: Final = "ListOptions"
DEFAULT_TIMEOUT_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class WriteOptions:
    manager: str
    validation: UnknownFields = UnknownFields.WARN
    dry_run: bool = False
    force: bool = False


def write_options(query: Query, kind: str, user_agent: str, *, applies: bool = False) -> WriteOptions:
    given = query.get("fieldManager", "")
    if applies and not given:
        raise invalid_option(kind, "fieldManager", CauseType.REQUIRED, "is required for apply patch")
    if len(given) > _MANAGER_LONGEST:
        raise invalid_option(kind, "fieldManager", CauseType.TOO_LONG, f"may not be more than {_MANAGER_LONGEST} bytes")
    if not given.isprintable():
        raise invalid_option(
            kind, "fieldManager", CauseType.INVALID, f'"{given}": must only contain printable characters'
        )
    manager = given or user_agent.partition("/")[0][:_MANAGER_LONGEST] or "unknown"
    force = is_true(query.get("force", ""))
    if force and not applies:
        raise invalid_option(kind, "force", CauseType.FORBIDDEN, "may not be specified for non-apply patch")
    return WriteOptions(manager, _validation(query, kind), _dry_run(query.get("dryRun", ""), kind), force)


def _validation(query: Query, kind: str) -> UnknownFields:
    given = query.get("fieldValidation", "")
    if not given:
        return UnknownFields.WARN
    try:
        return UnknownFields(given)
    except ValueError:
        known = 'supported values: "", "Ignore", "Strict", "Warn"'
        raise invalid_option(kind, "fieldValidation", CauseType.NOT_SUPPORTED, f'"{given}": {known}') from None


def _dry_run(given: str, kind: str) -> bool:
    if given not in {"", "All"}:
        raise invalid_option(kind, "dryRun", CauseType.NOT_SUPPORTED, f'["{given}"]: supported values: "All"')
    return bool(given)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    propagation: Propagation | None = None
    uid: str = ""
    revision: str = ""
    dry_run: bool = False


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _Delete(msgspec.Struct, rename="camel"):
    kind: str = ""
    dry_run: list[str] | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: _Preconditions | None = None


def delete_options(query: Query, raw: bytes) -> DeleteOptions:
    """From the body where there is one, and from the query."""
    given = _delete_body(raw)
    dry_run = "".join(given.dry_run or ()) or query.get("dryRun", "")
    policy = given.propagation_policy or query.get("propagationPolicy") or ""
    if given.orphan_dependents or is_true(query.get("orphanDependents", "")):
        policy = policy or Propagation.ORPHAN.value
    preconditions = given.preconditions or _Preconditions()
    return DeleteOptions(
        propagation=_propagation(policy),
        uid=preconditions.uid or "",
        revision=preconditions.resource_version or "",
        dry_run=_dry_run(dry_run, "DeleteOptions"),
    )


def _delete_body(raw: bytes) -> _Delete:
    if not raw.strip():
        return _Delete()
    try:
        given = msgspec.convert(_plain(raw), _Delete)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise bad_request(f"the body is no DeleteOptions: {error}") from None
    if given.kind not in {"", "DeleteOptions"}:
        raise bad_request(f'the body is of kind "{given.kind}" and not DeleteOptions')
    return given


def _plain(raw: bytes) -> object:
    return read_protobuf(raw) if raw.startswith(MAGIC) else msgspec.json.decode(raw)


def _propagation(policy: str) -> Propagation | None:
    if not policy:
        return None
    try:
        return Propagation(policy)
    except ValueError:
        known = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        message = f'"{policy}": {known}'
        raise invalid_option("DeleteOptions", "propagationPolicy", CauseType.NOT_SUPPORTED, message) from None


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of a list or a watch. `revision` is None if the client sent none."""

    revision: int | None = None
    match: str = ""
    limit: int = 0
    proceed: str = ""
    """The continue token."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    bookmarks: bool = False
    initial_events: bool | None = None
    include: Include = Include.METADATA


def list_options(query: Query, *, watch: bool = False) -> ListOptions:
    match, proceed = query.get("resourceVersionMatch", ""), query.get("continue", "")
    initial = is_true(query["sendInitialEvents"]) if "sendInitialEvents" in query else None
    given = query.get("resourceVersion", "")
    _check_match(given, match, watch=watch, proceed=proceed, initial=initial)
    timeout = _number(query, "timeoutSeconds")
    return ListOptions(
        revision=_revision(given),
        match=match,
        limit=_number(query, "limit"),
        proceed=proceed,
        timeout_s=min(float(timeout), DEFAULT_TIMEOUT_S) if timeout > 0 else DEFAULT_TIMEOUT_S,
        bookmarks=is_true(query.get("allowWatchBookmarks", "")),
        initial_events=initial,
        include=_include(query.get("includeObject", "")),
    )


def _check_match(given: str, match: str, *, watch: bool, proceed: str, initial: bool | None) -> None:
    if watch:
        _check_watch(match, proceed, initial=initial)
        return
    if initial is not None:
        raise _forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if not match:
        return
    if proceed:
        raise _forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
    if not given:
        raise _forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match not in {"Exact", "NotOlderThan"}:
        known = 'supported values: "Exact", "NotOlderThan", ""'
        raise invalid_option(_LIST_OPTIONS, "resourceVersionMatch", CauseType.NOT_SUPPORTED, f'"{match}": {known}')
    if match == "Exact" and given == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _forbidden("resourceVersionMatch", why)


def _check_watch(match: str, proceed: str, *, initial: bool | None) -> None:
    if proceed:
        raise _forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
    if initial is not None and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _forbidden("resourceVersionMatch", why)
    if initial is None and match:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise _forbidden("resourceVersionMatch", why)


def _forbidden(field: str, why: str) -> ApiError:
    return invalid_option(_LIST_OPTIONS, field, CauseType.FORBIDDEN, why)


def _revision(given: str) -> int | None:
    if not given:
        return None
    if not given.isascii() or not given.isdigit():
        message = f'resourceVersion: Invalid value: "{given}": strconv.ParseUint: parsing "{given}": invalid syntax'
        raise bad_request(f"invalid resource version: {message}")
    return int(given)


def _number(query: Query, name: str) -> int:
    given = query.get(name, "")
    try:
        return int(given) if given else 0
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{given}": invalid syntax') from None


def _include(given: str) -> Include:
    try:
        return Include(given) if given else Include.METADATA
    except ValueError:
        raise bad_request(f'includeObject: "{given}" is none of Metadata, Object and None') from None


def is_true(given: str) -> bool:
    return given.lower() not in _FALSE
