"""LVM's programs on a simulated host, as far as the helper runs them. Each volume group has one
thin pool, ``thin``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from vgpumgr.helper.allowed_programs import LVCREATE, LVEXTEND, LVS
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.sim.libvirt.sim_storage import POOL_BYTES, SimStorage

_EXTENT = 4 << 20
_POOL = "thin"
Answer = tuple[int, str]


@dataclass(frozen=True, slots=True)
class ThinLvm:
    """The programs, with the volumes that they show and make."""

    storage: SimStorage

    @property
    def programs(self) -> Mapping[str, Callable[[Sequence[str]], Answer]]:
        """By name."""
        return {LVS: self._lvs, LVCREATE: self._lvcreate, LVEXTEND: self._lvextend}

    def _lvs(self, args: Sequence[str]) -> Answer:
        *_, group = args
        try:
            volumes = self.storage.volumes(group)
        except VgpumgrError:
            return 5, f'  Volume group "{group}" not found\n'
        rows = [_row(_POOL, "twi-aotz--", "", POOL_BYTES)]
        rows += [_row(each.name, "Vwi-a-tz--", _POOL, each.capacity_bytes) for each in volumes]
        return 0, json.dumps({"report": [{"lv": rows}]})

    def _lvcreate(self, args: Sequence[str]) -> Answer:
        match list(args):
            case [*_, "--thin", "--virtualsize", size, "--name", name, place]:
                group, _, pool = place.partition("/")
                if pool != _POOL:
                    return 5, f"  Pool {pool} not found in Volume group {group}.\n"
                return self._made(group, name, _bytes(size), "")
            case [*_, "--snapshot", "--setactivationskip", "n", "--name", name, place]:
                group, _, source = place.partition("/")
                found = self.storage.look(group, source)
                if found is None:
                    return 5, f"  Snapshot origin LV {source} not found in Volume group {group}.\n"
                return self._made(group, name, found.capacity_bytes, source)
        return 3, f"  Invalid argument: {' '.join(args)}\n"

    def _lvextend(self, args: Sequence[str]) -> Answer:
        match list(args):
            case ["--quiet", "--size", size, place]:
                group, _, name = place.partition("/")
                found = self.storage.look(group, name)
                if found is None:
                    return 5, f"  Logical volume {name} not found in volume group {group}.\n"
                if found.capacity_bytes >= _bytes(size):
                    return 5, "  New size not larger than existing size.\n"
                self.storage.extend(group, name, _bytes(size))
                return 0, ""
        return 3, f"  Invalid argument: {' '.join(args)}\n"

    def _made(self, group: str, name: str, size: int, source: str) -> Answer:
        if self.storage.look(group, name) is not None:
            return 5, f'  Logical Volume "{name}" already exists in volume group "{group}"\n'
        self.storage.take(
            VolumePlan(
                pool=group, name=name, capacity_bytes=size, format="raw", source=source or None
            )
        )
        return 0, ""


def _bytes(size: str) -> int:
    """``1000b`` → whole extents."""
    return -(-int(size.removesuffix("b")) // _EXTENT) * _EXTENT


def _row(name: str, attributes: str, pool: str, size: int) -> dict[str, str]:
    return {"lv_name": name, "lv_attr": attributes, "pool_lv": pool, "lv_size": str(size)}
