"""The guests that are booted: profiles with their parameters, and how each ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.guests.guest_world import GuestEnd

SECRETS = {
    "ada-desktop": "not-in-any-seed-1",
    "join": "abcdef.0123456789abcdef",
    "munge": "bXVuZ2Uta2V5LW9mLXRoZS10ZXN0cy0wMTIzNDU2Nzg5",
    "token": "not-in-any-seed-2",
    "licence": "not-in-any-seed-3",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """``profiles`` as in a VM's file; ``why`` is in the reason of one that is to fail."""

    name: str
    profiles: tuple[Any, ...]
    why: str = ""
    more: dict[str, Any] = field(default_factory=dict)

    def is_as_meant(self, end: GuestEnd) -> bool:
        """Did it end so?"""
        if self.why:
            return end.phase == "failed" and self.why in end.why
        return end.phase == "ready"


def _with(name: str, **parameters: str) -> dict[str, Any]:
    return {"name": name, "parameters": parameters}


_NODE = _with(
    "kubernetes-node", endpoint="k8s.lan:6443", token="join", ca_hash=f"sha256:{'0' * 64}"
)
_SINGLE = (
    Cell(
        name="nvidia-guest-driver",
        profiles=(_with("nvidia-guest-driver", branch="550", licence_token="licence"),),
    ),
    Cell(name="docker", profiles=("docker",)),
    Cell(name="kubernetes-node", profiles=(_NODE,)),
    Cell(
        name="slurm-node",
        profiles=(_with("slurm-node", controller="slurm.lan", munge_key="munge"),),
    ),
    Cell(name="jupyterlab", profiles=(_with("jupyterlab", token="token"),)),
    Cell(name="remote-desktop-xrdp", profiles=("remote-desktop-xrdp",)),
)
_CELLS = (
    *_SINGLE,
    Cell(name="six", profiles=tuple(found for cell in _SINGLE for found in cell.profiles)),
    Cell(
        name="missing-package",
        profiles=(_with("docker", package="docker-ce"),),
        why="docker-ce",
    ),
)
CELLS = {cell.name: cell for cell in _CELLS}
