"""The origin of a source: what resolves it and reads its files."""

from dataclasses import dataclass, field
from pathlib import Path

from modelplane.api.outbound import OutboundRule
from modelplane.hydrate.artifact import Origin
from modelplane.hydrate.errors import HydrateError
from modelplane.hydrate.local import FolderOrigin, TextOrigin, config_map_files, inline_files
from modelplane.hydrate.sources import ConfigMapSource, FolderSource, InlineSource, Source


@dataclass(frozen=True, slots=True)
class OriginOptions:
    rule: OutboundRule = field(default_factory=OutboundRule)
    token_file: Path | None = None
    credentials: Path | None = None
    files: Path | None = None
    """The folder where the kubelet mounted a ConfigMap."""


def origin_of(source: Source, options: OriginOptions) -> Origin:
    match source:
        case FolderSource():
            return FolderOrigin(Path(source.path))
        case InlineSource():
            return TextOrigin(inline_files(source))
        case ConfigMapSource():
            return TextOrigin(config_map_files(source, options.files))
    raise HydrateError(f"{type(source).__name__} cannot be read yet")
