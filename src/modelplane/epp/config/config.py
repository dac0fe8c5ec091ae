"""The ecosystem's `EndpointPickerConfig`: fields, defaults and validation.

Validation is strict: an unknown field, type or name is an error with its file, line and field, also inside the
parameters of a plugin. All problems are reported at once. In addition to what the ecosystem rejects, these are
rejected: a negative weight, a weight on a plugin that is no scorer, a plugin listed twice in a profile, and a profile
that the handler would never run. An unused filter, scorer, picker or decider is only a warning, since configurations
that the ecosystem publishes have some; so are a plugin that no profile can use, and fields that are deprecated or have
no effect.

Defaults. Without plugins and profiles: queue, KV cache utilization and prefix cache with weights 2, 2 and 3, and the
max score picker. With plugins but no profiles: one profile `default` of all filters, scorers and pickers, in the order
they are listed. A profile without a picker gets the first picker listed, else `max-score-picker`. One profile and no
handler: the single profile handler. Data that a plugin reads and no plugin produces: its default producer.

`load` makes every plugin once to see that it can be made, and throws it away; `Config.build` makes new ones.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches

import msgspec

from modelplane.epp.config.builtin import builtin_registry, missing_protocol, unread_part
from modelplane.epp.config.default_producers import with_producers
from modelplane.epp.config.fields import (
    GROUPS,
    KIND,
    LEGACY_GROUP,
    ConfigFields,
    DataLayerFields,
    FlowControlFields,
    PluginFields,
)
from modelplane.epp.config.no_effect import NO_EFFECT, NO_EFFECT_TYPES, REFUSED, REFUSED_TYPES, given_of
from modelplane.epp.config.positions import ConfigError, ConfigProblem, ConfigProblems, unknown_field
from modelplane.epp.config.profiles import DEFAULT_PARAMETERS, ProfilePlan, Profiles
from modelplane.epp.config.sections import Sections
from modelplane.epp.scheduling.assembly import Assembly
from modelplane.epp.scheduling.declared import INERT
from modelplane.epp.scheduling.plugins import (
    Decider,
    EndpointsChanged,
    PreRequest,
    Producer,
    ProfileHandler,
    ResponseComplete,
)
from modelplane.epp.scheduling.units import convert
from modelplane.framework import Filter, Picker, Scorer
from modelplane.framework.registry import DeclaredPlugin, PluginEntry, Registry, build_plugins
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.admission.layout import Document
from modelplane.k8s.admission.paths import Path

GATES: Mapping[str, bool] = {"flowControl": False, "populate-non-leader-datastore": True}
"""Feature gates and their defaults."""
DEPRECATED_GATES = frozenset(("dataLayer", "prepareDataPlugins", "enableLegacyMetrics", "haPopulateNonLeaderDatastore"))
"""Gates of earlier releases, which have no effect."""
_DETECTOR = "utilization-detector"
_MOST_PROBLEMS = 100


class Config(msgspec.Struct, frozen=True, eq=False):
    """A configuration that is known to be sound."""

    source: str
    gates: Mapping[str, bool]
    entries: tuple[PluginEntry, ...]
    """Every plugin, those added by default included, in the order in which they run."""
    profiles: tuple[ProfilePlan, ...]
    handler: str
    data_layer: DataLayerFields
    flow_control: FlowControlFields
    parsers: tuple[str, ...]
    """Names of the parsers; empty: the default ones."""
    saturation_detector: str
    """The name of the detector's plugin; empty: the default one."""
    warnings: tuple[ConfigProblem, ...]
    registry: Registry
    text: str = ""
    """The source of the text."""

    def build(self, before: Assembly | None = None) -> Assembly:
        """New instances of all plugins. Stateful plugins of `before` with equal settings are kept.

        So a reload does not lose the prefix index.
        """
        made_from = {entry.name: (entry.type, entry.parameters) for entry in self.entries}
        kept = {name: before.stateful(name, of) for name, of in made_from.items()} if before is not None else {}
        there = {name: plugin for name, plugin in kept.items() if plugin is not None}
        built = build_plugins(self.entries, self.registry, _never, there)
        handler = built.instances[self.handler]
        if not isinstance(handler, ProfileHandler):
            raise TypeError(f"{self.handler} is no profile handler")
        profiles = {plan.name: plan.build(built.instances) for plan in self.profiles}
        return Assembly(handler, profiles, built.instances, made_from)

    def declared(self, part: str) -> tuple[DeclaredPlugin, ...]:
        """Plugins that take no part in decisions, of one kind: `parser`, `source`, and so on."""
        return tuple(
            DeclaredPlugin(entry.name, entry.type, entry.parameters)
            for entry in self.entries
            if part in self.registry[entry.type].parts
        )

    def entry(self, name: str) -> PluginEntry | None:
        return next((entry for entry in self.entries if entry.name == name), None)


def load(text: str | bytes, source: str = "config", registry: Registry | None = None) -> Config:
    """The configuration, or ConfigError with every problem. Text that is empty gives the defaults."""
    known = builtin_registry() if registry is None else registry
    raw = text.encode() if isinstance(text, str) else text
    documents = parse_documents(raw, source=source)
    if len(documents) > 1:
        raise ConfigError((ConfigProblem(source, documents[1].line, "", "a second document; there must be one"),))
    found = _Loader(documents[0] if documents else None, source, known).load()
    return msgspec.structs.replace(found, text=raw.decode(errors="replace"))


class _Loader:
    """The state of one reading: the findings so far."""

    def __init__(self, document: Document | None, source: str, registry: Registry) -> None:
        self._document = document
        self._source = source
        self._registry = registry
        self._places = ConfigProblems(document, source)
        self._problems: list[ConfigProblem] = []
        self._warnings: list[ConfigProblem] = []

    def load(self) -> Config:
        fields = self._fields()
        self._check_head(fields)
        gates = self._gates(fields)
        plugins = (*(fields.plugins or ()), *self._old_detector(fields))
        entries = self._entries(plugins)
        if self._problems:
            self._check_references(fields, {plugin.name or plugin.type for plugin in plugins})
        self._stop_if_wrong()
        built = build_plugins(entries, self._registry, self._cannot_make)
        self._check_parts(entries, built.instances)
        self._stop_if_wrong()
        profiles = Profiles(fields, built.instances, self._places, self._problems)
        plans = profiles.plans()
        handler = profiles.handler(plans, entries, built.referred)
        sections = Sections(fields, entries, gates, self._registry, self._places)
        self._problems.extend(sections.problems)
        self._warnings.extend((*profiles.warnings, *sections.warnings))
        used = {*profiles.used, *sections.used, *built.referred, handler}
        self._stop_if_wrong()
        self._check_use(entries, built.instances, used)
        return Config(
            self._source, gates, self._complete(entries, used), plans, handler,
            fields.data_layer or DataLayerFields(), fields.flow_control or FlowControlFields(),
            sections.parsers, sections.saturation_detector, tuple(self._warnings), self._registry,
        )  # fmt: skip

    def _fields(self) -> ConfigFields:
        if self._document is None:
            return ConfigFields(api_version=GROUPS[0], kind=KIND)
        value: object = self._document.value
        for _ in range(_MOST_PROBLEMS):
            try:
                return self._with_new_names(convert(value, ConfigFields))
            except msgspec.ValidationError as error:
                self._problems.append(self._places.decode_error((), error))
                unknown = unknown_field(error)
                if not unknown:
                    break
                # The rest may have more problems, which are reported together.
                value = _without(value, unknown)
        raise self._all_problems()

    def _with_new_names(self, fields: ConfigFields) -> ConfigFields:
        if fields.data is None:
            return fields
        self._warn(("data",), "is deprecated; use dataLayer")
        if fields.data_layer is not None:
            self._wrong(("data",), "and dataLayer are the same section; set one of them")
        return msgspec.structs.replace(fields, data_layer=fields.data, data=None)

    def _check_head(self, fields: ConfigFields) -> None:
        if fields.kind != KIND:
            self._wrong(("kind",), f"is {fields.kind or 'missing'}; it must be {KIND}")
        if fields.api_version == LEGACY_GROUP:
            self._warn(("apiVersion",), f"{LEGACY_GROUP} is deprecated; use {GROUPS[0]}")
        elif fields.api_version not in GROUPS:
            self._wrong(("apiVersion",), f"is {fields.api_version or 'missing'}; it must be {' or '.join(GROUPS)}")

    def _gates(self, fields: ConfigFields) -> Mapping[str, bool]:
        gates = dict(GATES)
        for at, gate in enumerate(fields.feature_gates or ()):
            name, _, value = gate.partition("=")
            if name in DEPRECATED_GATES:
                self._warn(("featureGates", at), f"the feature gate {name} is of an earlier release and has no effect")
            elif name not in GATES:
                self._wrong(("featureGates", at), f"no feature gate {name}; there are {', '.join(sorted(GATES))}")
            elif value not in {"", "true", "false"}:
                self._wrong(("featureGates", at), f"the value of {name} is {value}; it must be true or false")
            else:
                gates[name] = value != "false"
        return gates

    def _old_detector(self, fields: ConfigFields) -> Sequence[PluginFields]:
        """The plugin that corresponds to the thresholds of older configurations."""
        old = fields.saturation_detector
        if old is None or old.plugin_ref or not old.thresholds():
            return ()
        return (PluginFields(type=_DETECTOR, parameters=old.thresholds()),)

    def _entries(self, plugins: Sequence[PluginFields]) -> list[PluginEntry]:
        found: dict[str, PluginEntry] = {}
        for at, plugin in enumerate(plugins):
            entry = self._entry(at, plugin)
            if entry is not None and entry.name in found:
                self._wrong(("plugins", at, "name" if plugin.name else "type"), f"{entry.name} is listed twice")
            elif entry is not None:
                found[entry.name] = entry
        return list(found.values())

    def _entry(self, at: int, plugin: PluginFields) -> PluginEntry | None:
        if not plugin.type:
            self._wrong(("plugins", at, "type"), "is required")
            return None
        kind = self._registry.get(plugin.type)
        if kind is None:
            refused = REFUSED_TYPES.get(plugin.type)
            unknown = f"no plugin type {plugin.type}{self._nearest(plugin.type)}"
            self._wrong(("plugins", at, "type"), f"{plugin.type} is not supported: {refused}" if refused else unknown)
            return None
        if kind.replaced_by:
            self._warn(("plugins", at, "type"), f"{plugin.type} is deprecated; use {kind.replaced_by}")
        elif INERT in kind.parts:
            self._warn(("plugins", at, "type"), f"{plugin.type} has no effect here: {NO_EFFECT_TYPES[plugin.type]}")
        if part := unread_part(kind):
            self._wrong(
                ("plugins", at, "type"), f"{plugin.type} serves as {part} and is of another package: nothing reads it"
            )
            return None
        try:
            parameters = convert(plugin.parameters or {}, kind.parameters)
        except msgspec.ValidationError as error:
            self._problems.append(self._places.decode_error(("plugins", at, "parameters"), error))
            return None
        self._check_effect(at, plugin)
        return PluginEntry(plugin.name or plugin.type, plugin.type, parameters, at)

    def _check_effect(self, at: int, plugin: PluginFields) -> None:
        """Parameters that do nothing here are warned of; those whose absence would change what a pool does, refused."""
        where = ("plugins", at, "parameters")
        for path, why in given_of(REFUSED, plugin.type, plugin.parameters):
            self._wrong((*where, *path), why)
        for path, why in given_of(NO_EFFECT, plugin.type, plugin.parameters):
            self._warn((*where, *path), f"has no effect here: {why}")

    def _check_references(self, fields: ConfigFields, names: AbstractSet[str]) -> None:
        """If plugins cannot be built, references of profiles are only checked by name."""
        for at, profile in enumerate(fields.scheduling_profiles or ()):
            for index, ref in enumerate(profile.plugins or ()):
                if ref.plugin_ref and ref.plugin_ref not in names:
                    path = ("schedulingProfiles", at, "plugins", index, "pluginRef")
                    self._wrong(path, f"no plugin is named {ref.plugin_ref}")

    def _nearest(self, name: str) -> str:
        near = get_close_matches(name, self._registry, 1)
        return f"; did you mean {near[0]}?" if near else ""

    def _complete(self, entries: Sequence[PluginEntry], used: AbstractSet[str]) -> tuple[PluginEntry, ...]:
        """The entries and those that defaults add: plugins that only profiles name, and producers."""
        listed = {entry.name for entry in entries}
        added = [
            PluginEntry(name, name, convert(DEFAULT_PARAMETERS.get(name, {}), self._registry[name].parameters))
            for name in sorted(used - listed)
        ]
        try:
            complete, missing = with_producers((*entries, *added), self._registry)
        except msgspec.ValidationError as error:
            raise ConfigError((self._places.find(("plugins",), f"parameters for a producer: {error}"),)) from error
        for data in missing:
            self._warn((), f"no plugin produces {data}")
        return tuple(complete)

    def _cannot_make(self, entry: PluginEntry, sentence: str) -> None:
        path = ("plugins", entry.at, "parameters") if entry.at >= 0 else ()
        self._wrong(path, f"{entry.name}: {sentence}")

    def _check_parts(self, entries: Sequence[PluginEntry], instances: Mapping[str, object]) -> None:
        for entry in entries:
            kind = self._registry[entry.type]
            missing = missing_protocol(kind, instances[entry.name]) if entry.name in instances else ""
            if missing:
                parts = " and ".join(sorted(kind.parts))
                self._wrong(("plugins", entry.at, "type"), f"{kind.name} serves as {parts} and is no {missing}")

    def _check_use(
        self, entries: Sequence[PluginEntry], instances: Mapping[str, object], used: AbstractSet[str]
    ) -> None:
        for entry in entries:
            if entry.name not in used and _only_decides(instances[entry.name]):
                self._warn(("plugins", entry.at), f"nothing uses plugin {entry.name}")

    def _wrong(self, path: tuple[str | int, ...], sentence: str) -> None:
        self._problems.append(self._places.find(path, sentence))

    def _warn(self, path: tuple[str | int, ...], sentence: str) -> None:
        self._warnings.append(self._places.find(path, sentence))

    def _stop_if_wrong(self) -> None:
        if self._problems:
            raise self._all_problems()

    def _all_problems(self) -> ConfigError:
        return ConfigError(tuple(sorted(self._problems, key=lambda problem: problem.line)))


def _only_decides(plugin: object) -> bool:
    """Whether it does nothing unless something refers to it."""
    decides = isinstance(plugin, Filter | Scorer | Picker | ProfileHandler | Decider)
    return decides and not isinstance(plugin, Producer | PreRequest | ResponseComplete | EndpointsChanged)


def _without(value: object, path: Path) -> object:
    """The value without the field at the path."""
    step, *rest = path
    if isinstance(value, Mapping):
        kept = {key: each for key, each in value.items() if rest or key != step}
        return {**kept, step: _without(kept[step], tuple(rest))} if rest else kept
    if isinstance(value, Sequence) and isinstance(step, int):
        return [_without(each, tuple(rest)) if at == step else each for at, each in enumerate(value)]
    raise TypeError(f"nothing stands at {path} of {type(value).__name__}")


def _never(entry: PluginEntry, sentence: str) -> None:
    raise TypeError(f"plugin {entry.name} was made once and cannot be made again: {sentence}")
