"""Applies manifests to the plane's store: all of them, or none, with every reason."""

from collections.abc import Mapping, Sequence

from modelplane.api.definitions import definitions
from modelplane.api.errors import InvalidObject
from modelplane.api.objects import Manifest
from modelplane.apiserver.objects import stored_secret
from modelplane.apiserver.store.database import Database
from modelplane.k8s.admission.admit import AdmissionDenied, UnknownFields, admit
from modelplane.k8s.admission.layout import Document
from modelplane.k8s.admission.names import NAME_LENGTH
from modelplane.k8s.admission.objectmeta import check_metadata
from modelplane.k8s.admission.references import Severity
from modelplane.k8s.admission.review import review
from modelplane.reconcile.store import ObjectRef, ref_of

_SHOWN = 5
_OTHERS = frozenset((("v1", "Secret"), ("v1", "ConfigMap"), ("v1", "Namespace")))
"""Core kinds that Modelplane's kinds refer to."""


def admitted(manifest: Manifest, before: Manifest | None = None) -> Manifest:
    """The object with its defaults, as it is stored. Of kinds of other groups only Secrets have some."""
    definition = definitions().get((str(manifest.get("apiVersion")), str(manifest.get("kind"))))
    if definition is None:
        return stored_secret(dict(manifest), before) if manifest.get("kind") == "Secret" else manifest
    verdict = admit(dict(manifest), definition, old=before, unknown=UnknownFields.REFUSE)
    if isinstance(verdict, AdmissionDenied):
        kind, name = manifest.get("kind"), _name(manifest)
        raise InvalidObject(f"{kind} {name} is invalid: {_sentences([str(p) for p in verdict.problems])}")
    return verdict.value


def check_documents(documents: Sequence[Document]) -> None:
    """Raises InvalidObject with every problem of the documents."""
    found = review(documents)
    wrong = [f"{f.source}:{f.line}: {f.problem}" for f in found.findings if f.severity is Severity.ERROR]
    wrong += [f"{d.source}:{d.line}: {_foreign(d.value)}" for d in documents if _foreign(d.value)]
    if wrong:
        raise InvalidObject(_sentences(wrong))


def apply_documents(database: Database, documents: Sequence[Document]) -> tuple[ObjectRef, ...]:
    """Create or replace every object in one transaction: when one is refused, none is written."""
    store = database.store("plane")
    written: list[ObjectRef] = []
    with database.batch():
        for document in documents:
            manifest = _placed(document.value)
            ref = ref_of(manifest)
            before = store.get(ref)
            if before is None:
                store.create(admitted(manifest))
            else:
                store.replace(admitted(_over(before, manifest), before))
            written.append(ref)
    return tuple(dict.fromkeys(written))


def _foreign(value: object) -> str:
    """The problem of an object of another group's kind; empty when there is none."""
    if not isinstance(value, dict) or (str(value.get("apiVersion")), str(value.get("kind"))) in definitions():
        return ""
    if (value.get("apiVersion"), value.get("kind")) not in _OTHERS:
        return f"the embedded plane does not serve {value.get('apiVersion')} {value.get('kind')}"
    problems = check_metadata(value.get("metadata"), ("metadata",), longest_name=NAME_LENGTH)
    return next((str(problem) for problem in problems), "")


def _placed(value: object) -> dict[str, object]:
    """A namespaced object without a namespace goes to `default`, as with kubectl."""
    assert isinstance(value, dict)  # noqa: S101  review refuses documents that are no objects
    definition = definitions().get((str(value.get("apiVersion")), str(value.get("kind"))))
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        raise InvalidObject(f"{value.get('kind')}: metadata: is required")
    namespaced = definition.namespaced if definition else value.get("kind") in {"Secret", "ConfigMap"}
    return {**value, "metadata": {"namespace": "default", **metadata}} if namespaced else dict(value)


def _over(before: Manifest, manifest: Manifest) -> dict[str, object]:
    """The stored object with the given fields: server-set metadata and the status stay."""
    kept, given = before["metadata"], manifest["metadata"]
    assert isinstance(kept, Mapping)  # noqa: S101  stores hold objects
    assert isinstance(given, Mapping)  # noqa: S101  checked by _placed
    body = {name: value for name, value in manifest.items() if name not in {"metadata", "status"}}
    metadata = {**kept, **{name: given[name] for name in ("labels", "annotations") if name in given}}
    return {**body, "metadata": metadata, **({"status": before["status"]} if "status" in before else {})}


def _name(manifest: Manifest) -> str:
    metadata = manifest.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, Mapping) else "without a name"


def _sentences(problems: list[str]) -> str:
    more = len(problems) - _SHOWN
    return "; ".join(problems[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
