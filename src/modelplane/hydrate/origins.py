"""The origin of a source: what resolves it and reads its files."""

from dataclasses import dataclass, field
from pathlib import Path

from modelplane.api.outbound import OutboundRule
from modelplane.hydrate.artifact import Origin
from modelplane.hydrate.buckets import BucketOrigin
from modelplane.hydrate.credentials import MountedSecret
from modelplane.hydrate.huggingface import HuggingFaceOrigin
from modelplane.hydrate.local import FolderOrigin, TextOrigin, config_map_files, inline_files
from modelplane.hydrate.oci import OciOrigin
from modelplane.hydrate.peer import PeerOrigin
from modelplane.hydrate.sources import (
    BucketSource,
    ConfigMapSource,
    FolderSource,
    HttpSource,
    HuggingFaceSource,
    InlineSource,
    OciSource,
    PeerSource,
    Source,
)
from modelplane.hydrate.transport import TransferTimeouts, WebClient
from modelplane.hydrate.web import WebOrigin


@dataclass(frozen=True, slots=True)
class OriginOptions:
    rule: OutboundRule = field(default_factory=OutboundRule)
    secret: MountedSecret = field(default_factory=MountedSecret)
    timeouts: TransferTimeouts = field(default_factory=TransferTimeouts)
    files: Path | None = None
    """The folder where the kubelet mounted a ConfigMap."""


def origin_of(source: Source, options: OriginOptions) -> Origin:
    client = WebClient(options.rule, options.timeouts)
    match source:
        case HuggingFaceSource():
            return HuggingFaceOrigin(source, client, options.secret)
        case BucketSource():
            return BucketOrigin(source, client, options.secret)
        case OciSource():
            return OciOrigin(source, client, options.secret)
        case PeerSource():
            return PeerOrigin(source, client, options.secret)
        case HttpSource():
            return WebOrigin(source, client, options.secret)
        case FolderSource():
            return FolderOrigin(Path(source.path))
        case InlineSource():
            return TextOrigin(inline_files(source))
        case ConfigMapSource():
            return TextOrigin(config_map_files(source, options.files))
