"""Drivers of storage pools by libvirt's name of a kind, and the refusal of what one cannot do."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.engine.storage.file_pool import FilePool
from vgpumgr.engine.storage.storage_driver import Ability, StorageDriver
from vgpumgr.model.errors import Conflict

DRIVERS: Mapping[str, StorageDriver] = dict.fromkeys(("dir", "fs", "netfs"), FilePool())


def able(pool: str, kind: str, ability: Ability) -> StorageDriver:
    """The driver of a pool that can do that; Conflict where it cannot, or is not known."""
    found = DRIVERS.get(kind)
    if found is None or ability not in found.abilities:
        can = ", ".join(name for name, each in DRIVERS.items() if ability in each.abilities)
        raise Conflict(
            f"storage pool {pool} is of kind {kind or 'unknown'}, which knows no {ability}",
            why=f"these do: {can}",
            next="vgpumgr host show HOST",
        )
    return found
