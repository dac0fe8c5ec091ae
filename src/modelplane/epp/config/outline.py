"""A summary of a configuration: the profiles and the plugins with every default filled in."""

from collections.abc import Iterator

import msgspec

from modelplane.epp.config.config import Config
from modelplane.epp.scheduling.units import encode


class PluginOutline(msgspec.Struct, frozen=True):
    name: str
    type: str
    added: bool
    """Not written in the configuration: a default calls for it."""
    parameters: dict[str, object]


class WeightOutline(msgspec.Struct, frozen=True):
    name: str
    weight: float


class ProfileOutline(msgspec.Struct, frozen=True):
    name: str
    filters: tuple[str, ...]
    scorers: tuple[WeightOutline, ...]
    picker: str


class Outline(msgspec.Struct, frozen=True, rename="camel"):
    handler: str
    profiles: tuple[ProfileOutline, ...]
    plugins: tuple[PluginOutline, ...]
    gates: dict[str, bool]
    flow_control: dict[str, object]
    """The section as written; it counts only where its gate is on."""
    saturation_detector: str
    parsers: tuple[str, ...]
    warnings: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        yield f"handler {self.handler}"
        for profile in self.profiles:
            yield f"profile {profile.name}"
            yield f"  filters  {', '.join(profile.filters) or 'none'}"
            scorers = ", ".join(f"{scorer.name} x {scorer.weight:g}" for scorer in profile.scorers)
            yield f"  scorers  {scorers or 'none'}"
            yield f"  picker   {profile.picker}"
        on = [name for name, value in self.gates.items() if value]
        yield f"gates {', '.join(on) or 'none'}"
        if self.flow_control and self.gates["flowControl"]:
            yield f"flow control {_brief(self.flow_control)}"
        if self.saturation_detector:
            yield f"saturation detector {self.saturation_detector}"
        if self.parsers:
            yield f"parsers {', '.join(self.parsers)}"
        yield "plugins"
        for plugin in self.plugins:
            kind = "" if plugin.type == plugin.name else f" ({plugin.type})"
            added = ", added by default" if plugin.added else ""
            values = ", ".join(
                f"{name} {_brief(value)}" for name, value in plugin.parameters.items() if _is_shown(value)
            )
            yield f"  {plugin.name}{kind}{added}{': ' if values else ''}{values}"


def outline(config: Config) -> Outline:
    return Outline(
        config.handler,
        tuple(
            ProfileOutline(
                plan.name,
                plan.filters,
                tuple(WeightOutline(name, weight) for name, weight in plan.scorers),
                plan.picker,
            )
            for plan in config.profiles
        ),
        tuple(
            PluginOutline(entry.name, entry.type, entry.at < 0, msgspec.to_builtins(entry.parameters, enc_hook=encode))
            for entry in config.entries
        ),
        dict(config.gates),
        msgspec.to_builtins(config.flow_control, enc_hook=encode),
        config.saturation_detector,
        config.parsers,
        tuple(map(str, config.warnings)),
    )


def _is_shown(value: object) -> bool:
    """Whether a parameter was given or has a default to show; a struct of empty names has none."""
    return any(map(_is_shown, value.values())) if isinstance(value, dict) else value not in ("", None, ())


def _brief(value: object) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{name} {_brief(inner)}" for name, inner in value.items() if _is_shown(inner)) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_brief, value)) + "]"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case _:
            return str(value)
