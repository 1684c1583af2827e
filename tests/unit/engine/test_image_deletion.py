"""A copy of an image is deleted only where every volume that may lie over it was looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from vgpumgr.engine.steps.image_steps import delete_unused
from vgpumgr.model.domain import VolumeFacts
from vgpumgr.model.errors import Conflict, InUse
from vgpumgr.model.host import StoragePool

IMAGE = "cad@1.qcow2"


@dataclass
class Storage:
    """Storage pools of a host, with the path below each of their volumes."""

    below: dict[str, dict[str, str | None]]
    stopped: frozenset[str] = frozenset()
    deleted: list[str] = field(default_factory=list)

    def pools(self) -> tuple[StoragePool, ...]:
        return tuple(
            StoragePool(
                name=name,
                kind="dir",
                path=f"/pools/{name}",
                capacity_bytes=1,
                available_bytes=1,
                active=name not in self.stopped,
            )
            for name in self.below
        )

    def volumes(self, pool: str) -> tuple[VolumeFacts, ...]:
        return tuple(
            VolumeFacts(
                pool=pool,
                name=name,
                path=f"/pools/{pool}/{name}",
                capacity_bytes=1,
                format="qcow2",
                backing_path=below,
            )
            for name, below in self.below[pool].items()
        )

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        return next((each for each in self.volumes(pool) if each.name == volume), None)

    def delete(self, pool: str, volume: str) -> None:
        self.deleted.append(f"{pool}/{volume}")


def host(storage: Storage) -> Any:
    return SimpleNamespace(name="h1", storage=storage)


@pytest.mark.parametrize("below", [f"/pools/a/{IMAGE}", f"/mnt/link/{IMAGE}", IMAGE])
def test_a_volume_over_it_keeps_it_by_whatever_path(below: str) -> None:
    storage = Storage({"a": {IMAGE: None}, "b": {"disk": below}})
    with pytest.raises(InUse, match="is in use"):
        delete_unused(host(storage), "a", IMAGE)
    assert storage.deleted == []


def test_a_volume_over_the_copy_of_another_pool_does_not() -> None:
    storage = Storage({"a": {IMAGE: None}, "b": {IMAGE: None, "disk": f"/pools/b/{IMAGE}"}})
    delete_unused(host(storage), "a", IMAGE)
    assert storage.deleted == [f"a/{IMAGE}"]


def test_a_pool_that_cannot_be_looked_into_keeps_it_but_not_a_copy_made_now() -> None:
    storage = Storage({"a": {IMAGE: None}, "nas": {}}, frozenset({"nas"}))
    with pytest.raises(Conflict, match="may be in use") as refused:
        delete_unused(host(storage), "a", IMAGE)
    assert "virsh pool-start nas" in refused.value.next
    delete_unused(host(storage), "a", IMAGE, made_now=True)
    assert storage.deleted == [f"a/{IMAGE}"]
