"""Versions of Kubernetes, as kubelets spell them: `v1.36.0`, `v1.35.2-gke.1269000`."""

import re

_MINOR = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})([.+-]|$)")
IMAGE_VOLUMES = (1, 36)
"""From here on pods may mount images on every cluster; before, it depends on feature gates."""


def minor_version(text: str) -> tuple[int, int] | None:
    """Major and minor; None for what is no version."""
    found = _MINOR.match(text)
    return (int(found[1]), int(found[2])) if found is not None else None


def image_volume_fault(version: str | None) -> str | None:
    """Why a cluster of this version mounts no image. One that is not known is not refused."""
    found = minor_version(version or "")
    if found is None or found >= IMAGE_VOLUMES:
        return None
    needed = ".".join(map(str, IMAGE_VOLUMES))
    return f"an image volume needs Kubernetes {needed}, and the cluster has a node of {version}"
