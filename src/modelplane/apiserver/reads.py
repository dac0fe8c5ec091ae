"""Get and list, at the newest revision or at one that is not compacted.

A list in pages (`limit` and `continue`) has the state of its first page: later changes are undone with the store's
history. When that revision is compacted, the client gets 410 and lists again.
"""

import asyncio
import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from modelplane.api.objects import Json, Manifest, name_of, namespace_of, text_at
from modelplane.apiserver import tables
from modelplane.apiserver.failures import ApiError, bad_request, expired, not_found, too_large_revision
from modelplane.apiserver.media import ObjectForm
from modelplane.apiserver.objects import shown, tabled_of
from modelplane.apiserver.options import ListOptions
from modelplane.apiserver.paths import RequestInfo
from modelplane.apiserver.selectors import ListSelector
from modelplane.apiserver.store.database import Expired, SqliteStore
from modelplane.apiserver.wire import Wire, encode, listing, tabled
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.store import ObjectRef

_META = "meta.k8s.io/v1"
_TURN = 500
"""Objects encoded before the event loop runs other tasks."""


class _Token(msgspec.Struct, frozen=True):
    """A continue token: the last namespace and name, and the revision."""

    revision: int
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ListPage:
    items: Sequence[Manifest]
    metadata: Json


class Reads:
    def __init__(self, store: SqliteStore, wire: Wire, clock: Clock) -> None:
        self._store = store
        self._wire = wire
        self._clock = clock

    def get(self, target: RequestInfo, form: ObjectForm, options: ListOptions) -> bytes:
        found = self.find(target)
        resource = target.resource
        match form:
            case ObjectForm.OBJECT:
                return self._wire.object(resource, target.ref, found)
            case ObjectForm.PARTIAL:
                return encode(tables.partial(shown(resource, found)))
            case ObjectForm.TABLE:
                metadata: Json = {"resourceVersion": text_at(found, "metadata", "resourceVersion")}
                row = self._renderer(target, options, form)(found)
                return tabled(tables.column_definitions(resource), metadata, [row])

    def find(self, target: RequestInfo) -> Manifest:
        found = self._store.get(target.ref)
        if found is None:
            raise not_found(target.resource, target.name)
        return found

    async def list_all(
        self, target: RequestInfo, selector: ListSelector, options: ListOptions, form: ObjectForm
    ) -> bytes:
        """A list, encoded in turns: long ones leave room for other requests in between."""
        page = self.page(target, selector, options)
        render, parts = self._renderer(target, options, form), list[bytes]()
        for start in range(0, len(page.items), _TURN):
            if start:
                await asyncio.sleep(0)
            parts.extend(render(each) for each in page.items[start : start + _TURN])
        names = target.resource.definition.names
        match form:
            case ObjectForm.OBJECT:
                return listing(target.resource.api_version, names.list_kind, page.metadata, parts)
            case ObjectForm.PARTIAL:
                return listing(_META, "PartialObjectMetadataList", page.metadata, parts)
            case ObjectForm.TABLE:
                return tabled(tables.column_definitions(target.resource), page.metadata, parts)

    def _renderer(self, target: RequestInfo, options: ListOptions, form: ObjectForm) -> Callable[[Manifest], bytes]:
        """How one object of a list is written."""
        resource, now = target.resource, self._clock.now()
        match form:
            case ObjectForm.OBJECT:
                return lambda each: self._wire.object(resource, ref_in(target, each), each)
            case ObjectForm.PARTIAL:
                return lambda each: encode(tables.partial(shown(resource, each)))
            case ObjectForm.TABLE:
                return lambda each: encode(tables.rows(resource, [tabled_of(resource, each)], now, options.include)[0])

    def page(self, target: RequestInfo, selector: ListSelector, options: ListOptions) -> ListPage:
        """The items of a list. Raises ApiError if its revision is not available."""
        token = _read_token(options.proceed) if options.proceed else None
        revision = token.revision if token is not None else self._wanted(options)
        found = self._matching(target, selector, revision)
        if token is not None:
            behind = (token.namespace, token.name)
            found = [each for each in found if _namespaced_name(each) > behind]
        return _cut(found, self._store.revision if revision is None else revision, options, selector)

    def _wanted(self, options: ListOptions) -> int | None:
        """The revision that must be shown exactly; None where the newest state will do."""
        if options.revision is not None and options.revision > self._store.revision:
            raise too_large_revision(options.revision, self._store.revision)
        return options.revision if options.match == "Exact" else None

    def _matching(self, target: RequestInfo, selector: ListSelector, revision: int | None) -> list[Manifest]:
        resource = target.resource
        if revision is not None and revision != self._store.revision:
            return [each for each in self._at(target, revision) if selector.matches(each)]
        name = selector.name()
        if name is not None and not target.is_everywhere:
            one = self._store.get(ObjectRef(*resource.home, target.namespace or "", name))
            return [one] if one is not None and selector.matches(one) else []
        labels = selector.equal_labels()
        found = self._store.list(*resource.home, namespace=target.namespace, labels=labels or None)
        return list(found) if selector.is_everything else [each for each in found if selector.matches(each)]

    def _at(self, target: RequestInfo, revision: int) -> list[Manifest]:
        """The objects at a revision: later changes are undone."""
        resource = target.resource
        changes = self._store.changes_since(revision)
        if isinstance(changes, Expired):
            raise _too_old()
        listed = self._store.list(*resource.home, namespace=target.namespace)
        found = {_namespaced_name(each): each for each in listed}
        for change in reversed(changes):
            place = (change.ref.namespace, change.ref.name)
            if (change.ref.group, change.ref.kind) != resource.home:
                continue
            if target.namespace not in {None, change.ref.namespace}:
                continue
            if change.before is None:
                found.pop(place, None)
            else:
                found[place] = change.before
        return [found[place] for place in sorted(found)]


def ref_in(target: RequestInfo, manifest: Manifest) -> ObjectRef:
    return ObjectRef(*target.resource.home, *_namespaced_name(manifest))


def _namespaced_name(manifest: Manifest) -> tuple[str, str]:
    return namespace_of(manifest), name_of(manifest)


def _cut(found: list[Manifest], revision: int, options: ListOptions, selector: ListSelector) -> ListPage:
    metadata: Json = {"resourceVersion": str(revision)}
    left = len(found) - options.limit
    if options.limit <= 0 or left <= 0:
        return ListPage(found, metadata)
    shown_items = found[: options.limit]
    metadata["continue"] = _write_token(_Token(revision, *_namespaced_name(shown_items[-1])))
    if selector.is_everything:
        metadata["remainingItemCount"] = left
    return ListPage(shown_items, metadata)


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(encode(token)).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None


def _too_old() -> ApiError:
    return expired("The resourceVersion for the provided list is too old.")
