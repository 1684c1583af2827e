"""What others made, brought under management as it is."""

from __future__ import annotations

from collections.abc import Callable

from tests.contract.simulated.host import SimMachine
from tests.faults import commands
from tests.faults.scenario import Place, Scenario
from tests.faults.scenarios.ways import FRESH
from tests.simworld import NEW, host, vm
from tests.unit.engine.foreign import Hands, domain, mdev_hostdev, pci_hostdev
from vgpumgr.model.layout import VFS_MAX, GpuLayout

_UUID = "11111111-2222-3333-4444-555555555555"
# Somebody's way to give a GPU to a domain: the hostdev that names it.
Given = Callable[[Place, SimMachine], str]


def _mdev(place: Place, root: SimMachine) -> str:
    held = place.held("keeper")
    types = f"/sys/class/mdev_bus/{held.parent}/mdev_supported_types/{held.type_id}"
    root.write(f"{types}/create", _UUID)
    return mdev_hostdev(_UUID)


def _free_vf(place: Place) -> str:
    held = place.held("keeper")
    gpu = next(each for each in place.app.ledger.gpus("h1") if each.id == held.gpu)
    return next(vf.address for vf in gpu.facts.vfs if vf.address != held.device)


def _vgpu(place: Place, root: SimMachine) -> str:
    vf = _free_vf(place)
    path = f"/sys/bus/pci/devices/{vf}/nvidia/current_vgpu_type"
    root.write(path, place.held("keeper").type_id)
    return pci_hostdev(vf)


def _bound(place: Place, root: SimMachine, address: str) -> str:
    return Hands(world=None, host=None, root=root).bound(address)  # type: ignore[arg-type]


def _plain_vf(place: Place, root: SimMachine) -> str:
    return _bound(place, root, _free_vf(place))


def _whole(place: Place, root: SimMachine) -> str:
    held = place.held("keeper")
    free = next(each for each in place.app.ledger.gpus("h1") if each.id != held.gpu)
    return _bound(place, root, free.facts.device)


_VFS = GpuLayout(vfs=VFS_MAX)
# part: boards, their layout, what another VM of ours has there
WAYS: dict[str, tuple[tuple[str, ...], GpuLayout | None, str, Given]] = {
    "mdev": (("T4",), None, "T4-4Q", _mdev),
    "vfio-vf": (("L40S",), _VFS, "L40S-8Q", _vgpu),
    "pci-vf": (("FLEX-170",), GpuLayout(vfs=5), "FLEX-170-1of5", _plain_vf),
    "passthrough": (("T4", "T4"), None, "passthrough", _whole),
}


def _of(part: str) -> Scenario:
    boards, layout, kept, given = WAYS[part]

    def foreign(place: Place) -> None:
        """A running domain that somebody else made."""
        place.enrol("h1")
        place.cut(layout, "h1")
        place.apply(vm("keeper", kept, disks=(FRESH,)))
        found = place.hosts.fleet.hosts["h1"]
        found.domains.define(domain("desk", given(place, SimMachine(found))))
        found.domains.start("desk")

    return Scenario(
        operation="adopt",
        part=part,
        hosts=(host(*boards, versions=NEW),),
        command=commands.adopt("h1", "desk"),
        prepare=(foreign,),
    )


def _partitioned(place: Place) -> None:
    """Somebody's script switched the VFs on."""
    place.enrol("h1")
    [gpu] = place.app.ledger.gpus("h1")
    args = {"gpu": gpu.facts.device, "count": gpu.facts.sriov_total}
    place.helper("h1").call("vfs_set", args)


_LAYOUT = Scenario(
    operation="adopt",
    part="layout",
    hosts=(host("L40S"),),
    command=commands.adopt_layout("h1"),
    prepare=(_partitioned,),
)

SCENARIOS = (*(_of(part) for part in WAYS), _LAYOUT)
