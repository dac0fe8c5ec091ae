"""Images of Modelplane's own programs: those of this release, unless a cluster or a gateway names others.

    named in spec.backend.images, or in spec.router of an InferenceGateway    as it is written there
    otherwise                       <repository>/modelplane-<program>:v<version>, from the cluster's registry mirror

The host knows the repository that the images were pushed to. Without one the names stand alone, as `make package` names
its archives: nodes have them loaded, or find them in their own default registry.

A release of Modelplane brings other images. That alone changes no pod of an engine: see `compose.kept_images`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from modelplane.api.version import __version__

if TYPE_CHECKING:
    from modelplane.api.models import InferenceCluster

OwnProgram = Literal["picker", "routing_sidecar", "warm_up", "loader", "router"]
IMAGE_NAMES: Final[Mapping[OwnProgram, str]] = MappingProxyType(
    {
        "picker": "modelplane-picker",
        "routing_sidecar": "modelplane-routing-sidecar",
        "warm_up": "modelplane-warm-up",
        "loader": "modelplane-loader",
        "router": "modelplane-router",
    }
)


@dataclass(frozen=True, slots=True)
class OwnImages:
    """The images of one cluster."""

    picker: str = ""
    routing_sidecar: str = ""
    warm_up: str = ""
    loader: str = ""
    """Empty: nothing checks the caches before an engine starts, as in pods of an earlier release."""


@dataclass(frozen=True, slots=True)
class ReleaseImages:
    """Where the images of this release are."""

    repository: str = ""
    loader: str = ""
    """The loader's, where a host was started with one of its own."""
    version: str = __version__

    def of(self, program: OwnProgram) -> str:
        if program == "loader" and self.loader:
            return self.loader
        name = f"{IMAGE_NAMES[program]}:v{self.version}"
        return f"{self.repository.rstrip('/')}/{name}" if self.repository else name

    def for_cluster(self, cluster: "InferenceCluster") -> OwnImages:
        mirrors = RegistryMirrors.of(cluster)

        def image(program: OwnProgram) -> str:
            return named_image(cluster, program) or mirrors.of_image(self.of(program))

        return OwnImages(image("picker"), image("routing_sidecar"), image("warm_up"), image("loader"))


RELEASE_IMAGES: Final = ReleaseImages()


def named_image(cluster: "InferenceCluster", program: OwnProgram) -> str | None:
    """The image that a cluster names itself."""
    found: str | None = getattr(cluster.spec.backend.images, program)
    return found


@dataclass(frozen=True, slots=True)
class RegistryMirrors:
    """By source, the longest first, for a part of a registry may have a mirror of its own."""

    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, cluster: "InferenceCluster") -> "RegistryMirrors":
        declared = cluster.spec.software.registry_mirrors if cluster.spec.software is not None else ()
        found = [(each.source.rstrip("/"), each.mirror.rstrip("/")) for each in declared]
        return cls(tuple(sorted(found, key=lambda pair: -len(pair[0]))))

    def of_image(self, image: str) -> str:
        for source, mirror in self.pairs:
            if image == source or image.startswith(f"{source}/"):
                return mirror + image.removeprefix(source)
        return image

    def of_repository(self, repository: str) -> str:
        scheme, _, place = repository.partition("://")
        return f"{scheme}://{self.of_image(place)}"
