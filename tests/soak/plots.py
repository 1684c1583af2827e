"""The small fleets that a soak plays on: every framework, with and without a layout."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simworld import NEW, OLD, host
from vgpumgr.model.host import Versions
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, LayoutRule, LayoutSpec
from vgpumgr.model.sim_fleet import SimHost

HOSTS = ("h1", "h2")


@dataclass(frozen=True)
class Plot:
    """Two hosts alike, how they are partitioned, and what VMs and layouts may ask of them."""

    name: str
    hosts: tuple[SimHost, ...]
    profiles: tuple[str, ...]
    layout: GpuLayout | None = None
    others: tuple[GpuLayout, ...] = ()
    models: tuple[str, ...] = ()

    def spec(self, hosts: tuple[str, ...], goal: GpuLayout) -> LayoutSpec:
        """A layout of those GPUs of these hosts that one is for."""
        rule = LayoutRule(layout=goal, models=self.models)
        return LayoutSpec(name="cut", hosts=hosts, rules=(rule,))


def _hosts(*boards: str, versions: Versions = NEW) -> tuple[SimHost, ...]:
    size: dict[str, object] = {"cpus": 16, "memory_mib": 65536, "numa_nodes": 1}
    return tuple(host(*boards, name=name, versions=versions, **size) for name in HOSTS)


_VFS = GpuLayout(vfs=VFS_MAX)
_MIG = GpuLayout(mig=True, vfs=VFS_MAX, instances=())
_CUT = GpuLayout(
    mig=True,
    vfs=VFS_MAX,
    instances=(InstanceGoal(profile="3g.40gb"), InstanceGoal(profile="2g.20gb")),
)
_OFF = GpuLayout(mig=False, vfs=0, instances=())
_MIXED = GpuLayout(vfs=VFS_MAX, mixed_size=True)

_ALL = (
    Plot("mdev", _hosts("T4", "T4"), ("T4-4Q", "T4-8Q", "T4-1Q", "passthrough")),
    Plot("vf", _hosts("L40S"), ("L40S-8Q", "L40S-24Q"), _VFS, (_MIXED, GpuLayout(vfs=0))),
    Plot("mdev on a VF", _hosts("A2", versions=OLD), ("A2-4Q", "A2-8Q"), _VFS),
    Plot("mig", _hosts("A100-PCIE-80GB"), ("1g.10gb", "3g.40gb"), _MIG, (_CUT, _OFF)),
    Plot("mig mdev", _hosts("A100-PCIE-80GB", versions=OLD), ("2g.20gb", "3g.40gb"), _MIG),
    Plot(
        "shared instance",
        _hosts("RTX-PRO-6000-BSE"),
        ("RTX Pro 6000 Blackwell DC-1-8Q", "RTX Pro 6000 Blackwell DC-1-4Q"),
        _MIG,
    ),
    Plot(
        "plain",
        _hosts("FLEX-170", "T4"),
        ("FLEX-170-1of5", "passthrough"),
        GpuLayout(vfs=5),
        models=("FLEX-170",),
    ),
)
PLOTS = {plot.name: plot for plot in _ALL}
