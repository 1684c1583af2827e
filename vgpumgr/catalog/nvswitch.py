"""NVSwitch boards and the partitions that Fabric Manager has for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, final

from vgpumgr.catalog.shipped_tables import sources, table


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FabricPartitionRow:
    """A partition: its id, the physicalIds of its GPUs (from 1), and NVLinks per GPU inside it."""

    id: int
    gpus: tuple[int, ...]
    nvlinks: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FabricBoard:
    """An NVSwitch board of ``gpus`` GPUs.

    ``identity`` says how a GPU of the host is recognised in Fabric Manager's list: by ``uuid``
    (A100), or by ``module-id``, which equals the physicalId (H100 and later).
    """

    key: str
    gpus: int
    partitions: tuple[FabricPartitionRow, ...]
    identity: Literal["uuid", "module-id"]
    source: str
    verified: bool


@cache
def fabric_boards() -> tuple[FabricBoard, ...]:
    """Every NVSwitch board. Source: NVIDIA Fabric Manager User Guide, GPU Partitions."""
    return tuple(_board(row) for row in table("fabric_partitions")["boards"])


def fabric(key: str) -> FabricBoard | None:
    """The NVSwitch board of this key (``HGX-H100-8``); None where there is none."""
    return next((each for each in fabric_boards() if each.key == key), None)


def fits_fabric(made_for: str, key: str) -> bool:
    """Do GPUs made for the NVSwitch board ``made_for`` sit on that of this key?

    Those of HGX-A100-8 sit on HGX-A100-16 as well: two such boards make one fabric.
    """
    return made_for.rpartition("-")[0] == key.rpartition("-")[0]


def _board(row: dict[str, Any]) -> FabricBoard:
    return FabricBoard(
        key=row["key"],
        gpus=row["gpus"],
        partitions=tuple(
            FabricPartitionRow(id=each["id"], gpus=tuple(each["gpus"]), nvlinks=each["nvlinks"])
            for each in row["partitions"]
        ),
        identity="module-id" if row.get("physical_id_is_module_id") else "uuid",
        source=sources("fabric_partitions", row["source"]),
        verified=row["verified"] and row.get("ids_verified", True),
    )
