"""Removes what a comparison made, and waits until it is gone: a namespace that still ends would refuse the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.client import Api, Manifest, name_of, until

if TYPE_CHECKING:
    from collections.abc import Collection

_WITHIN_S = 300.0


async def remove(api: Api, objects: Collection[Manifest]) -> None:
    """Objects without a namespace, all at once. Returns when none of them is left."""
    for item in objects:
        await api.delete(item)
    for item in objects:
        await until(
            f"{item['kind']} {name_of(item)} gone",
            lambda item=item: _is_gone(api, item),  # type: ignore[misc]  # bound early on purpose
            within_s=_WITHIN_S,
        )


async def _is_gone(api: Api, item: Manifest) -> bool:
    return await api.get(str(item["apiVersion"]), str(item["kind"]), name_of(item)) is None
