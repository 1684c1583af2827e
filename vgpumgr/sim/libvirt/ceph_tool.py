"""``rbd`` on a simulated host, as far as the helper runs it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from vgpumgr.model.errors import VgpumgrError
from vgpumgr.sim.libvirt.sim_storage import SimStorage

_SNAPSHOT = "libvirt-1"


@dataclass(frozen=True, slots=True)
class CephTool:
    """The program, with the images that it shows and changes."""

    storage: SimStorage

    def run(self, args: Sequence[str]) -> tuple[int, str]:
        """``info``, ``flatten``, and the snapshot that libvirt made for a clone."""
        try:
            match list(args):
                case [*_, "info", "--format", "json", image]:
                    return 0, json.dumps(self._info(*image.split("/")))
                case [*_, "flatten", "--no-progress", image]:
                    self.storage.stand_alone(*image.split("/"))
                    return 0, ""
                case [*_, "snap", "unprotect" | "rm", _]:
                    return 0, ""
        except VgpumgrError as error:
            return 2, f"rbd: error opening image: (2) No such file or directory: {error.message}\n"
        return 1, f"rbd: unknown arguments {' '.join(args)}\n"

    def _info(self, pool: str, name: str) -> dict[str, object]:
        parent = self.storage.parent(pool, name)
        told: dict[str, object] = {"name": name}
        if parent:
            told["parent"] = {"pool": pool, "image": parent, "snapshot": _SNAPSHOT}
        return told
