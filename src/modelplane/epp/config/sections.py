"""The sections of a configuration that others act on: parsers, the data layer, flow control."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from modelplane.epp.config.fields import BandFields, ConfigFields, CrossReplicaFields, DataLayerFields, Ref
from modelplane.epp.config.positions import ConfigProblem, ConfigProblems
from modelplane.framework.registry import PluginEntry, Registry
from modelplane.k8s.admission.paths import Path

FLOW_CONTROL = "flowControl"
_DETECTOR = "utilization-detector"
_GRPC_PARSERS = frozenset(("vllmgrpc-parser", "vertexai-parser"))


class Sections:
    """The references of the sections, and their problems."""

    def __init__(
        self,
        fields: ConfigFields,
        entries: Sequence[PluginEntry],
        gates: Mapping[str, bool],
        registry: Registry,
        places: ConfigProblems,
    ) -> None:
        self._fields = fields
        self._types = {entry.name: registry[entry.type] for entry in entries}
        self._places = places
        self.problems: list[ConfigProblem] = []
        self.warnings: list[ConfigProblem] = []
        self.used: set[str] = set()
        self.parsers = self._parsers()
        self.saturation_detector = self._detector()
        self._check_data_layer()
        self._check_flow_control()
        if fields.flow_control is not None and not gates[FLOW_CONTROL]:
            self._warn((FLOW_CONTROL,), f"is not in force: the feature gate {FLOW_CONTROL} is off")

    def _parsers(self) -> tuple[str, ...]:
        handler = self._fields.request_handler
        found: list[tuple[Path, Ref]] = []
        if self._fields.parser is not None:
            self._warn(("parser",), "is deprecated; use requestHandler.parsers")
            found.append((("parser",), self._fields.parser))
        for at, ref in enumerate((handler.parsers or ()) if handler else ()):
            found.append((("requestHandler", "parsers", at), ref))
        known = [(path, ref) for path, ref in found if self._refer((*path, "pluginRef"), ref.plugin_ref, "parser")]
        for path, ref in known:
            if self._types[ref.plugin_ref].name in _GRPC_PARSERS:
                self._warn((*path, "pluginRef"), f"{ref.plugin_ref}: gRPC messages are not parsed")
        return tuple(ref.plugin_ref for _, ref in known)

    def _detector(self) -> str:
        found: list[tuple[Path, Ref]] = []
        if self._fields.saturation_detector is not None:
            self._warn(("saturationDetector",), "is deprecated; use flowControl.saturationDetector")
            old = self._fields.saturation_detector
            ref = Ref(plugin_ref=_DETECTOR) if not old.plugin_ref and old.thresholds() else old
            found.append((("saturationDetector",), ref))
        flow = self._fields.flow_control
        if flow is not None and flow.saturation_detector is not None:
            found.append(((FLOW_CONTROL, "saturationDetector"), flow.saturation_detector))
        named = [(path, ref.plugin_ref) for path, ref in found if not self._is_usual_detector(ref.plugin_ref)]
        names = [name for path, name in named if self._refer((*path, "pluginRef"), name, "detector")]
        return names[-1] if names else ""

    def _is_usual_detector(self, name: str) -> bool:
        """The usual one need not be named, and if it is, need not be listed."""
        return not name or (name == _DETECTOR and name not in self._types)

    def _check_data_layer(self) -> None:
        layer = self._fields.data_layer
        if layer is None:
            return
        for at, source in enumerate(layer.sources or ()):
            self._refer(("dataLayer", "sources", at, "pluginRef"), source.plugin_ref, "source")
            for index, extractor in enumerate(source.extractors or ()):
                at_extractor = ("dataLayer", "sources", at, "extractors", index, "pluginRef")
                self._refer(at_extractor, extractor.plugin_ref, "extractor")
        if layer.discovery is not None:
            self._refer(("dataLayer", "discovery", "pluginRef"), layer.discovery.plugin_ref, "discovery")
        if layer.peer_discovery is not None:
            self._refer(("dataLayer", "peerDiscovery", "pluginRef"), layer.peer_discovery.plugin_ref, "peers")
        self._check_cross_replica(layer)

    def _check_cross_replica(self, layer: DataLayerFields) -> None:
        """Pickers share by --peers, at their own pace. A plugin may be named, as long as it is a syncer."""
        new = layer.cross_replica or CrossReplicaFields()
        for path, name in (
            (("crossReplicaSyncerPluginRef",), layer.cross_replica_syncer_plugin_ref),
            (("crossReplica", "syncerPluginRef"), new.syncer_plugin_ref),
        ):
            if name:
                self._refer(("dataLayer", *path), name, "syncer")
        for path, given in (
            (("crossReplicaSyncInterval",), layer.cross_replica_sync_interval),
            (("crossReplica", "syncInterval"), new.sync_interval),
            (("crossReplica", "publishTimeout"), new.publish_timeout),
        ):
            if given is not None:
                self._warn(("dataLayer", *path), "has no effect here: pickers share by --peers, at their own pace")

    def _check_flow_control(self) -> None:
        flow = self._fields.flow_control
        if flow is None:
            return
        if flow.usage_limit_policy_plugin_ref:
            self._refer((FLOW_CONTROL, "usageLimitPolicyPluginRef"), flow.usage_limit_policy_plugin_ref, "usage limit")
        seen: set[int] = set()
        for path, band in _bands(self._fields):
            if "priorityBands" in path and band.priority in seen:
                self._wrong((*path, "priority"), f"priority {band.priority} is listed twice")
            if "priorityBands" in path:
                seen.add(band.priority)
            if band.fairness_policy_ref:
                self._refer((*path, "fairnessPolicyRef"), band.fairness_policy_ref, "fairness")
            if band.ordering_policy_ref:
                self._refer((*path, "orderingPolicyRef"), band.ordering_policy_ref, "ordering")

    def _refer(self, path: Path, name: str, part: str) -> bool:
        """Whether the name is that of a plugin of this part."""
        kind = self._types.get(name)
        if not name:
            self._wrong(path, "is required")
        elif kind is None:
            self._wrong(path, f"no plugin is named {name}")
        elif part not in kind.parts and not (part == "extractor" and kind.produces):
            self._wrong(path, f"{name} is of type {kind.name}, which is no {part}")
        else:
            self.used.add(name)
            return True
        return False

    def _wrong(self, path: Path, sentence: str) -> None:
        self.problems.append(self._places.find(path, sentence))

    def _warn(self, path: Path, sentence: str) -> None:
        self.warnings.append(self._places.find(path, sentence))


def _bands(fields: ConfigFields) -> Iterator[tuple[Path, BandFields]]:
    flow = fields.flow_control
    if flow is None:
        return
    templates: Iterable[tuple[str, BandFields | None]] = (
        ("defaultPriorityBand", flow.default_priority_band),
        ("defaultNegativePriorityBand", flow.default_negative_priority_band),
    )
    for field, band in templates:
        if band is not None:
            yield (FLOW_CONTROL, field), band
    for at, band in enumerate(flow.priority_bands or ()):
        yield (FLOW_CONTROL, "priorityBands", at), band
