"""The order in which to change what Envoy reads.

A change never points at a missing resource: new resources are added, then routes are switched, then unused resources
are removed. Listeners are added before others are removed because Envoy executes the removals of an update even if it
rejects the additions.
"""

from collections.abc import Iterator, Mapping

from modelplane.envoy.config import EnvoyConfig, XdsResource
from modelplane.envoy.files import XdsFile, XdsType, route_file, table_file


def final_files(config: EnvoyConfig) -> tuple[XdsFile, ...]:
    """The tables of a configuration that has fully arrived."""
    return (
        table_file("cds", config.clusters.values()),
        route_file(config),
        table_file("lds", config.listeners.values()),
    )


def plan(previous: EnvoyConfig, wanted: EnvoyConfig, on_disk: Mapping[XdsType, str]) -> Iterator[XdsFile]:
    """The files to write, each to be accepted before the next, to get from one configuration to another.

    `on_disk` is the version of each table as it lies there, which is not written again.
    """
    clusters, routes, listeners = final_files(wanted)
    both_clusters = table_file("cds", _added(previous.clusters, wanted.clusters).values())
    both_listeners = table_file("lds", _added(_not_in_the_way(previous, wanted), wanted.listeners).values())
    written = dict(on_disk)
    for file in (both_clusters, routes, both_listeners, listeners, clusters):
        if written.get(file.table) != file.version:
            written[file.table] = file.version
            yield file


def _added(previous: Mapping[str, XdsResource], wanted: Mapping[str, XdsResource]) -> dict[str, XdsResource]:
    """Both together, in one order however they came about, so that equal tables have equal versions."""
    both = {**previous, **wanted}
    return {name: both[name] for name in sorted(both)}


def _not_in_the_way(previous: EnvoyConfig, wanted: EnvoyConfig) -> dict[str, XdsResource]:
    """Old listeners whose address no listener of another name needs."""
    claimed = {wanted.address_of(name): name for name in wanted.listeners}
    return {
        name: resource
        for name, resource in previous.listeners.items()
        if claimed.get(previous.address_of(name), name) == name
    }
