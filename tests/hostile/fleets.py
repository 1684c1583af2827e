"""Small fleets of one host that tells the truth and one that does not, and what there is to ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.support import vm

GOOD, BAD = "good", "bad"
_MIG = "A100-PCIE-40GB"
_THERE = {"affinity": {"hosts": [BAD]}}
_DISK = {"mode": "overlay", "image": "base.qcow2"}


@dataclass(frozen=True, slots=True)
class Fleet:
    """The bad host's boards, the documents that commands name as ``{name}``, how it begins."""

    boards: tuple[tuple[str, int], ...]
    documents: Mapping[str, dict[str, Any]]
    begin: tuple[tuple[str, ...], ...]
    more: Mapping[str, Any] = field(default_factory=dict)


def _layout(*gpus: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Layout", "name": "carved", "hosts": [BAD], "gpus": list(gpus)}


def _carved(third: str) -> dict[str, Any]:
    instances = [{"profile": "1g.5gb", "count": 2}, {"profile": third}]
    mig = {"model": _MIG, "mig": True, "vfs": "max", "instances": instances}
    return _layout({"model": "A40", "vfs": "max"}, mig)


def _whole(name: str, model: str, count: int = 1) -> dict[str, Any]:
    part = {"profile": "passthrough", "model": model, "count": count}
    return vm(name, gpus=[part], **_THERE)


_BEGIN = ("layout", "apply", "-f", "{layout}", "-y")
_WISH = vm("wish", "T4-4Q")
FLEETS = {
    # T4s for mdevs and whole, an A40 of VFs under the vendor's framework, an A100 in MIG.
    "vgpu": Fleet(
        (("T4", 2), ("A40", 1), (_MIG, 1)),
        {
            "layout": _carved("2g.10gb"),
            "other": _carved("3g.20gb"),
            "wish": _WISH,
            "mdev": vm("mdev", "T4-4Q", **_THERE),
            "vf": vm("vf", "A40-8Q", **_THERE),
            "instance": vm("instance", "1g.5gb", **_THERE),
            "whole": _whole("whole", "T4"),
            "disk": vm("disk", disks=[_DISK], **_THERE),
            "stay": vm("stay", "T4-4Q", **_THERE),
        },
        (_BEGIN, ("apply", "-f", "{stay}")),
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
            "moving": vm("moving", disks=[_DISK], **_THERE),
        },
        (_BEGIN, ("apply", "-f", "{moving}")),
        {"fabric": "HGX-H100-8"},
    ),
}
