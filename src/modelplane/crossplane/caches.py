"""The caches of one function server, and how large each may grow.

The server makes one `FunctionCaches` and passes it down; nothing in this package is cached in a module. All of them
hold what follows from their key, so a server that starts with empty caches answers the same, more slowly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from modelplane.api.codec import decode
from modelplane.api.identity import IdentityMemo
from modelplane.api.models import ModelReplica
from modelplane.api.objects import Manifest
from modelplane.compose.contract import Requirement
from modelplane.compose.fleet_reader import FleetReader
from modelplane.compose.images import RELEASE_IMAGES, ReleaseImages
from modelplane.compose.provider_models import ListModels
from modelplane.crossplane.bounded_cache import BoundedCache
from modelplane.crossplane.dependency_digest import pools_digest
from modelplane.crossplane.provider_objects import ComposedObject, read_back
from modelplane.crossplane.structs import StructCodec

STRUCT_BYTES: Final = 64 * 1024 * 1024
COMPOSITES: Final = 131_072
COMPOSED_OBJECTS: Final = 32_768
REPLICAS: Final = 8_192
POOLS: Final = 20_000


@dataclass(frozen=True, slots=True)
class FunctionCaches:
    structs: StructCodec = field(default_factory=lambda: StructCodec(STRUCT_BYTES))
    """Decoded and encoded protobuf Structs."""
    requirements: BoundedCache[str, Mapping[str, Requirement]] = field(default_factory=lambda: BoundedCache(COMPOSITES))
    """What each composite required last time, by its uid."""
    read_back: IdentityMemo[Manifest, ComposedObject] = field(
        default_factory=lambda: IdentityMemo(read_back, COMPOSED_OBJECTS)
    )
    """Composed objects as composers see them. An object that did not change is decoded to the same mapping."""
    decode_replica: IdentityMemo[Manifest, ModelReplica] = field(
        default_factory=lambda: IdentityMemo(partial(decode, ModelReplica), REPLICAS)
    )
    """Observed ModelReplicas, typed, by the same mapping."""
    read_fleet: FleetReader = field(default_factory=FleetReader)
    """Listed clusters, replicas and caches as a fleet, for servers that do not keep one."""
    pools_digest: IdentityMemo[object, str] = field(default_factory=lambda: IdentityMemo(pools_digest, POOLS))
    """Digests of pools for the dependency digest. Clusters whose pools are equal share one value of them."""
    resolve: Callable[[str], tuple[str, ...] | None] | None = None
    """Addresses of host names; see ComposeRequest."""
    list_models: ListModels | None = None
    """Lists of providers' models; see ComposeRequest."""
    images: ReleaseImages = RELEASE_IMAGES
    """Images of our own programs, for clusters that name none."""
