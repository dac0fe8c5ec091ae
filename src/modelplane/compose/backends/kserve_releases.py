"""What differs between the releases of KServe that we render for: one row each.

release  what is new for us
0.16     the first; pods cannot be given labels, weights are always fetched or mounted by KServe
0.17     v1alpha2; labels and annotations of pods; the storage initializer can be turned off; pools of the stable API
0.18 and later change nothing that we render
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from modelplane.api.models import Backend
from modelplane.api.reasons import Reason
from modelplane.compose.context import RenderError


@dataclass(frozen=True, slots=True)
class Release:
    api_version: str
    pool_group: str
    labels_pods: bool
    leaves_storage: bool
    """Whether it can be told to mount nothing, so that caches are mounted as everywhere else."""


_FIRST = Release("serving.kserve.io/v1alpha1", "inference.networking.x-k8s.io", labels_pods=False, leaves_storage=False)
_SECOND = Release("serving.kserve.io/v1alpha2", "inference.networking.k8s.io", labels_pods=True, leaves_storage=True)
RELEASES: Mapping[int, Release] = MappingProxyType({16: _FIRST, 17: _SECOND, 18: _SECOND, 19: _SECOND, 20: _SECOND})
"""By minor version."""
DEFAULT_VERSION = "0.20"
_VERSION = re.compile(r"v?0\.([0-9]+)(\.[0-9]+)?")


def release_of(backend: Backend) -> Release:
    text = backend.kserve.version if backend.kserve else DEFAULT_VERSION
    found = _VERSION.fullmatch(text)
    release = RELEASES.get(int(found[1])) if found else None
    if release is None:
        raise RenderError(Reason.NOT_SUPPORTED, f"KServe {text!r} is not among the releases that we render for")
    return release
