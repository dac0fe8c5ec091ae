"""The plane's own kinds as CustomResourceDefinitions: `kubectl get crd` shows what a cluster with Crossplane would.

They are updated at start-up to the definitions of this version, and read-only.
"""

from typing import Final

from modelplane.api.definitions import Definition, custom_resource_definition, definitions
from modelplane.api.objects import Json, as_mapping, name_of
from modelplane.api.timestamps import timestamp
from modelplane.apiserver.store.database import SqliteStore
from modelplane.reconcile.store import ObjectRef

GROUP: Final = "apiextensions.k8s.io"
KIND: Final = "CustomResourceDefinition"


def ensure_kinds(store: SqliteStore, now: float) -> None:
    """One for each kind, as it is served; none for kinds that are not."""
    wanted = {name_of(each): each for each in _all(now)}
    for known in store.list(GROUP, KIND):
        name = name_of(known)
        found = wanted.pop(name, None)
        if found is None:
            store.delete(ObjectRef(GROUP, KIND, "", name))
        elif known.get("spec") != found["spec"]:
            store.replace({**known, "spec": found["spec"]})
    for missing in wanted.values():
        store.create(missing)


def _all(now: float) -> list[Json]:
    return [_established(each, now) for each in definitions().values()]


def _established(definition: Definition, now: float) -> Json:
    crd = custom_resource_definition(definition)
    spec = {**as_mapping(crd["spec"]), "conversion": {"strategy": "None"}}
    conditions = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
    ]
    status = {"acceptedNames": spec["names"], "conditions": conditions, "storedVersions": [definition.version]}
    return {**crd, "spec": spec, "status": status}


def _condition(kind: str, reason: str, message: str, now: float) -> Json:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": timestamp(now)}
