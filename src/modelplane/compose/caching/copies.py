"""Copies of the Secret and the ConfigMap that the loader reads, from the team's namespace to the cluster.

The composer sees which keys there are and never a value: the host copies them (`CopiedFrom`). They go with the Job.
"""

from collections.abc import Iterator

from modelplane.api.labels import COPIED_FROM
from modelplane.api.names import make_name
from modelplane.api.objects import Manifest, manifest, mapping_at, text_at, with_metadata
from modelplane.compose.caching.site import Site
from modelplane.compose.context import remote_namespace
from modelplane.compose.contract import CopiedFrom, Desired, Remote
from modelplane.compose.replica_references import PULL_TYPES

_COPIES = (("secret", "Secret"), ("configmap", "ConfigMap"))


def copy_name(site: Site, kind: str) -> str:
    cache = site.inputs.cache.metadata
    return make_name(f"cache-{cache.name}-{kind.lower()}", cache.namespace, cache.name, kind)


def input_copies(site: Site, users: tuple[str, ...]) -> dict[str, Desired]:
    """Copies of the Secret and the ConfigMap that the Job reads. They go when it is done."""
    return dict(_each_copy(site, users))


def _each_copy(site: Site, users: tuple[str, ...]) -> Iterator[tuple[str, Desired]]:
    inputs, source = site.inputs, site.fetched
    named = {
        "secret": (inputs.secret(source), source.secret.name if source.secret is not None else None),
        "configmap": (inputs.config_map, source.config_map),
    }
    for part, kind in _COPIES:
        original, name = named[part]
        key = f"{part}-{site.name}"
        seen = inputs.request.observed.get(key)
        if name is not None and original is not None:
            yield key, Desired(copied(site, kind, name, original), seen is not None and seen.ready, users)


def copied(site: Site, kind: str, name: str, original: Manifest, purpose: str = "") -> Remote:
    namespace = site.inputs.cache.metadata.namespace
    made = manifest("v1", kind, copy_name(site, purpose or kind), namespace=remote_namespace(namespace))
    made = with_metadata(made, annotations={COPIED_FROM: f"{namespace}/{name}"})
    if kind == "Secret":
        given = text_at(original, "type")
        made = {**made, "type": given if given in PULL_TYPES else "Opaque"}
    fields = tuple(part for part in ("data", "binaryData") if mapping_at(original, part))
    version = text_at(original, "metadata", "resourceVersion")
    return Remote(site.name, made, copied_from=CopiedFrom("v1", kind, name, namespace, fields, version))
