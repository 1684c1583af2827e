"""Small fleets of one host that tells the truth and some that do not, and what there is to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.support import vm

GOOD = "good"
_MIG = "A100-PCIE-40GB"
_DISK = {"mode": "overlay", "image": "base.qcow2"}


def bad_names(count: int) -> tuple[str, ...]:
    """So many hosts that lie, none of whose names is part of another."""
    return tuple(f"bad{number:02}" for number in range(count))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The boards of a bad host, the documents that commands name as ``{name}``, how it begins."""

    boards: tuple[tuple[str, int], ...]
    documents: Mapping[str, dict[str, Any]]
    begin: tuple[tuple[str, ...], ...]
    more: Mapping[str, Any] = field(default_factory=dict)

    def document(self, name: str, hosts: Sequence[str]) -> list[dict[str, Any]]:
        """A layout of these hosts, a VM for each, or what is for no host."""
        said = self.documents[name]
        if said.get("kind") == "Layout":
            return [{**said, "hosts": list(hosts)}]
        if name == "wish":
            return [said]
        return [
            {**said, "name": f"{said['name']}-{each}", "affinity": {"hosts": [each]}}
            for each in hosts
        ]


def _layout(*gpus: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Layout", "name": "carved", "gpus": list(gpus)}


def _carved(third: str, **a40: Any) -> dict[str, Any]:
    instances = [{"profile": "1g.5gb", "count": 2}, {"profile": third}]
    mig = {"model": _MIG, "mig": True, "vfs": "max", "instances": instances}
    return _layout({"model": "A40", "vfs": "max", **a40}, mig)


def _whole(name: str, model: str, count: int = 1) -> dict[str, Any]:
    part = {"profile": "passthrough", "model": model, "count": count}
    return vm(name, gpus=[part])


_CAPPED = {"limit_watts": 220, "locked_clocks": [210, 1400]}
_BEGIN = ("layout", "apply", "-f", "{layout}", "-y")
_WISH = vm("wish", "T4-4Q")
FLEETS = {
    # T4s for mdevs and whole, an A40 of VFs under the vendor's framework, an A100 in MIG.
    "vgpu": Fleet(
        (("T4", 2), ("A40", 1), (_MIG, 1)),
        {
            "layout": _carved("2g.10gb"),
            "other": _carved("3g.20gb", power=_CAPPED),
            "wish": _WISH,
            "mdev": vm("mdev", "T4-4Q"),
            "vf": vm("vf", "A40-8Q"),
            "instance": vm("instance", "1g.5gb"),
            "whole": _whole("whole", "T4"),
            "disk": vm("disk", disks=[_DISK]),
            "sealed": vm("sealed", tpm=True),
            "stay": vm("stay", "T4-4Q"),
        },
        (
            _BEGIN,
            ("apply", "-f", "{stay}"),
            ("backup", "target", "create", "vault", "--pool", "vault", "--full-every", "1"),
        ),
        {"pools": ["default", "vault"]},
    ),
    # Partitioned every way, without VMs: it can leave the fleet.
    "layouts": Fleet(
        (("L40S", 1), ("A30", 1)),
        {
            "layout": _layout(
                {"model": "L40S", "vfs": "max", "mixed_size": True},
                {"model": "A30", "mig": True, "vfs": "max", "instances": [{"profile": "1g.6gb"}]},
            ),
            "other": _layout(
                {"model": "L40S", "vfs": "max", "mixed_size": False, "scheduler": "equal-share"},
                {"model": "A30", "mig": False, "vfs": 0},
            ),
            "wish": vm("wish", "L40S-8Q"),
        },
        (_BEGIN,),
    ),
    # GPUs behind switches, and a VM whose disk lies over an image.
    "fabric": Fleet(
        (("H100-SXM5-80GB", 8),),
        {
            "layout": _layout({"model": "H100-SXM5-80GB", "mig": False}),
            "wish": _WISH,
            "pair": _whole("pair", "H100-SXM5-80GB", 2),
            "moving": vm("moving", disks=[_DISK]),
        },
        (_BEGIN, ("apply", "-f", "{moving}")),
        {"fabric": "HGX-H100-8"},
    ),
}
