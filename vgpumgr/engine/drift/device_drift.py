"""Drift of GPU parts: missing, of another type, moved, on another driver, and claims without an
allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from vgpumgr.engine.drift.host_comparison import ComparedHost, mdev_removal, removal_commands
from vgpumgr.engine.inventory.gpu_usage import claim_unit
from vgpumgr.model import formats
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.drift import Drift, DriftKind
from vgpumgr.model.gpu import Framework, GpuFacts, GpuRecord, VfFacts
from vgpumgr.model.host import ClaimFacts
from vgpumgr.model.vm import VmRecord, VmState

FOLDER = "/var/lib/vgpumgr/claims"

# Units that a VM takes: the claim of a layout is none.
_OF_VMS = (formats.mdev_claim(""), formats.pci_claim(""), "fabric-")


def claim_drifts(side: ComparedHost) -> Iterator[Drift]:
    """Every unit that an allocation takes, then the claims of ours that no allocation knows."""
    if side.unread("claims"):
        return
    there = {claim.unit: claim for claim in side.facts.claims}
    for vm, allocation in side.to_compare():
        for unit in _units(side, allocation):
            if not side.unread(f"claims {unit}"):
                yield from _expected(side, vm, allocation, unit, there.get(unit))
    yield from _nics(side, there)
    known = {unit for allocation in side.held for unit in _units(side, allocation)}
    known |= {formats.pci_claim(each) for vm in side.ours.values() for each in _functions(side, vm)}
    for claim in side.facts.claims:
        ours = claim.fleet == side.fleet and claim.unit.startswith(_OF_VMS)
        if ours and claim.unit not in known and claim.vm not in side.work.names:
            yield _leftover(side, claim)
    yield from _layouts(side, there)


def _functions(side: ComparedHost, vm: VmRecord) -> tuple[str, ...]:
    """The VFs of the host's NICs that a VM holds."""
    here = vm.nic_functions if vm.host == side.host and vm.state is not VmState.SHELVED else ()
    to = vm.moving_to
    return (*here, *(to.nic_functions if to is not None and to.host == side.host else ()))


def _nics(side: ComparedHost, there: Mapping[str, ClaimFacts]) -> Iterator[Drift]:
    """VFs of VMs whose claim is gone, or another's; and VFs that are on no more."""
    on = {vf.address for nic in side.facts.nics for vf in nic.vfs}
    for vm in side.vms:
        for address in vm.nic_functions:
            unit = formats.pci_claim(address)
            claim = there.get(unit)
            if side.unread(f"claims {unit}", "nics"):
                continue
            if address not in on:
                what, kind = "it is on no more", DriftKind.DEVICE_MISSING
                how = f"on {side.host}: turn the VFs of its NIC on again, then "
            elif claim is None:
                what, kind, how = "its claim is gone", DriftKind.CLAIM_MISSING, ""
            elif (claim.fleet, claim.allocation) != (side.fleet, vm.id):
                words = _words(claim.fleet, claim.allocation, claim.generation)
                what, kind = f"its claim is another's: {words}", DriftKind.CLAIM_DIFFERS
                how = f"find out who holds it; on {side.host}: cat {FOLDER}/{unit}.json; then "
            else:
                continue
            yield Drift(
                kind=kind,
                host=side.host,
                vm=vm.name,
                subject=unit,
                text=f"VF {address}, a NIC of {vm.name}: {what}",
                wanted=_words(side.fleet, vm.id, 1),
                found="none" if claim is None else claim.allocation,
                next=f"{how}vgpumgr vm start {vm.name}",
            )


def _units(side: ComparedHost, allocation: Allocation) -> Iterator[str]:
    """The unit of an allocation's device, and of the NVSwitch partition whose claim it carries."""
    yield claim_unit(allocation)
    if allocation.partition is not None:
        place = (allocation.vm_id, allocation.partition)
        if allocation.id == min(a.id for a in side.held if (a.vm_id, a.partition) == place):
            yield formats.fabric_claim(allocation.partition)


def _expected(
    side: ComparedHost, vm: VmRecord, allocation: Allocation, unit: str, claim: ClaimFacts | None
) -> Iterator[Drift]:
    wanted = _words(side.fleet, allocation.id, allocation.generation)
    found = _words(claim.fleet, claim.allocation, claim.generation) if claim else "none"
    if found == wanted:
        return
    what = "its claim is gone" if claim is None else f"its claim is another's: {found}"
    yield Drift(
        kind=DriftKind.CLAIM_MISSING if claim is None else DriftKind.CLAIM_DIFFERS,
        host=side.host,
        gpu=allocation.gpu,
        vm=vm.name,
        subject=unit,
        text=f"{allocation.profile} of {vm.name} at {allocation.device}: {what}",
        wanted=wanted,
        found=found,
        next=_next_for_claim(side, allocation, unit, claim),
    )


def _words(fleet: str, allocation: str, generation: int) -> str:
    return f"fleet {fleet}, allocation {allocation}, generation {generation}"


def _next_for_claim(
    side: ComparedHost, allocation: Allocation, unit: str, claim: ClaimFacts | None
) -> str:
    """Without its claim a device is not ours to touch; a start makes both anew."""
    start = f"vgpumgr vm start {allocation.vm}"
    if claim is not None:
        return f"find out who holds it; on {side.host}: cat {FOLDER}/{unit}.json"
    if is_missing(side, allocation):
        return start
    return f"{removal_commands(side.host, allocation)}; {start}"


def _layouts(side: ComparedHost, there: Mapping[str, ClaimFacts]) -> Iterator[Drift]:
    """Claims of kept layouts. A layout that its host has not kept is a layout's drift."""
    for gpu in side.own_gpus:
        claim = there.get(formats.layout_claim(gpu.facts.device))
        if claim is None or gpu.id in side.work.touched:
            continue
        declared, ours = gpu.id in side.declared, claim.fleet == side.fleet
        if ours and not declared:
            yield _layout(side, gpu, claim, DriftKind.CLAIM_LEFTOVER)
        elif declared and not ours:
            yield _layout(side, gpu, claim, DriftKind.CLAIM_DIFFERS)


def _layout(side: ComparedHost, gpu: GpuRecord, claim: ClaimFacts, kind: DriftKind) -> Drift:
    whose = "the ledger has no layout of it"
    if kind is DriftKind.CLAIM_DIFFERS:
        whose = f"it is fleet {claim.fleet}'s, but this fleet has one too"
    return Drift(
        kind=kind,
        host=side.host,
        gpu=gpu.id,
        subject=claim.unit,
        text=f"{gpu.facts.model} {gpu.facts.device} is restored at "
        f"every boot as layout {claim.vm}: "
        f"{whose}",
        wanted="our layout" if kind is DriftKind.CLAIM_DIFFERS else "no claim",
        found=f"layout {claim.vm} of fleet {claim.fleet}",
        next=f"vgpumgr layout apply -f FILE, or on {side.host}: rm {FOLDER}/{claim.unit}.json",
    )


def _leftover(side: ComparedHost, claim: ClaimFacts) -> Drift:
    device = claim.unit.partition("-")[2]
    there = any(mdev.uuid == device for mdev in side.facts.mdevs)
    return Drift(
        kind=DriftKind.CLAIM_LEFTOVER,
        host=side.host,
        subject=claim.unit,
        text=f"{claim.unit} is claimed for VM {claim.vm} of this fleet, "
        "and the ledger has no such allocation",
        wanted="no claim",
        found=_words(claim.fleet, claim.allocation, claim.generation),
        next="is the ledger an older copy? If not, "
        f"on {side.host}: "
        + (f"{mdev_removal(device)}, then " if there else "")
        + f"rm {FOLDER}/{claim.unit}.json",
    )


VFIO = "vfio-pci"

# kind, what is said of the device, wanted, found
Fault = tuple[DriftKind, str, str, str]


def device_drifts(side: ComparedHost) -> Iterator[Drift]:
    """Every allocation against its device, its GPU instance and its NVSwitch partition."""
    for vm, allocation in side.to_compare():
        for kind, text, wanted, found in faults(side, allocation):
            yield Drift(
                kind=kind,
                host=side.host,
                gpu=allocation.gpu,
                vm=vm.name,
                subject=allocation.device,
                text=f"{allocation.profile} of {vm.name}: {text}",
                wanted=wanted,
                found=found,
                next=_next_for_device(side, vm, allocation, kind),
            )


def faults(side: ComparedHost, allocation: Allocation) -> Iterator[Fault]:
    """How the device of an allocation is not as it was made."""
    yield from _CHECKS[Framework(allocation.framework)](side, allocation)
    yield from _instance(side, allocation)
    yield from _partition(side, allocation)


def is_missing(side: ComparedHost, allocation: Allocation) -> bool:
    """Is the device surely not on the host?"""
    return any(kind is DriftKind.DEVICE_MISSING for kind, *_ in faults(side, allocation))


def _missing(text: str) -> Fault:
    return DriftKind.DEVICE_MISSING, text, "there", "missing"


def _mdev(side: ComparedHost, allocation: Allocation) -> Iterator[Fault]:
    uuid = allocation.device
    if side.unread("mdevs", f"mdevs {uuid}"):
        return
    mdev = next((each for each in side.facts.mdevs if each.uuid == uuid), None)
    if mdev is None:
        yield _missing(f"mdev {uuid} is gone from {allocation.parent}")
        return
    wanted = f"{allocation.type_id} on {allocation.parent}"
    found = f"{mdev.type_id} on {mdev.parent}"
    if found != wanted:
        yield DriftKind.DEVICE_DIFFERS, f"mdev {uuid} is {found}, not {wanted}", wanted, found


def _vendor_vf(side: ComparedHost, allocation: Allocation) -> Iterator[Fault]:
    gpu, vf = _function(side, allocation)
    address = allocation.device
    if side.unread(*_vf_parts(side, allocation)) or gpu is None:
        return
    if vf is None:
        yield _missing(f"VF {address} is off")
    elif vf.vendor is None:
        text = f"VF {address} is on {_driver(vf.driver)}, which provides no vGPU"
        yield DriftKind.DEVICE_DRIVER, text, "nvidia", _driver(vf.driver)
    elif vf.vendor.type_id == 0:
        yield _missing(f"VF {address} carries no vGPU")
    elif vf.vendor.type_id is not None:
        yield from _vgpu(gpu, vf, allocation)


def _vgpu(gpu: GpuFacts, vf: VfFacts, allocation: Allocation) -> Iterator[Fault]:
    """A driver that does not tell instance or placement says nothing against them."""
    made = vf.vendor
    if made is None:
        return
    told = {
        "type": (allocation.type_id, made.type_id),
        "placement id": (allocation.placement_id, made.placement_id),
        "GPU instance at slice": (
            allocation.instance and allocation.instance.start,
            _start(gpu, made.instance),
        ),
    }
    for name, (wanted, found) in told.items():
        if wanted is not None and found is not None and str(wanted) != str(found):
            text = f"VF {vf.address} has {name} {found}, not {wanted}"
            yield DriftKind.DEVICE_DIFFERS, text, f"{name} {wanted}", f"{name} {found}"


def _start(gpu: GpuFacts, instance: int | None) -> int | None:
    known = (gpu.mig.instances if gpu.mig else None) or ()
    return next((each.start for each in known if each.id == instance), None)


def _plain_vf(side: ComparedHost, allocation: Allocation) -> Iterator[Fault]:
    gpu, vf = _function(side, allocation)
    if side.unread(*_vf_parts(side, allocation)) or gpu is None:
        return
    if vf is None:
        yield _missing(f"VF {allocation.device} is off")
    else:
        yield from _bound(f"VF {vf.address}", vf.driver)


def _whole(side: ComparedHost, allocation: Allocation) -> Iterator[Fault]:
    address = allocation.device
    if side.unread("devices", f"devices {address} driver", f"devices {address} class"):
        return
    gpu = next((each for each in side.facts.gpus if each.device == address), None)
    if gpu is None:
        yield _missing(f"{address} is not on the bus")
    else:
        yield from _bound(address, gpu.driver)


def _bound(what: str, driver: str | None) -> Iterator[Fault]:
    if driver != VFIO:
        text = f"{what} is on {_driver(driver)}, not on {VFIO}"
        yield DriftKind.DEVICE_DRIVER, text, VFIO, _driver(driver)


def _driver(driver: str | None) -> str:
    return driver or "no driver"


def _function(side: ComparedHost, allocation: Allocation) -> tuple[GpuFacts | None, VfFacts | None]:
    """The GPU of a VF, and the VF; a GPU that is gone is named by itself."""
    gpu, address = side.gpu_of(allocation), allocation.parent or allocation.device
    vfs = gpu.vfs if gpu else ()
    return gpu, next((vf for vf in vfs if vf.address == address), None)


def _vf_parts(side: ComparedHost, allocation: Allocation) -> tuple[str, ...]:
    """The parts of a probe that tell of a VF."""
    gpu, vf = side.device_of(allocation), allocation.device
    return ("devices", f"devices {gpu} sriov", f"vfs {vf}", f"vfs {vf} vgpu")


def _instance(side: ComparedHost, allocation: Allocation) -> Iterator[Fault]:
    """The GPU instance behind a vGPU; where none could be read, none is missing."""
    part, gpu = allocation.instance, side.gpu_of(allocation)
    if part is None or gpu is None or side.unread("nvml", f"nvml {gpu.device}"):
        return
    there = gpu.mig.instances if gpu.mig else None
    if there is None or any(
        (each.start, each.profile_id) == (part.start, part.profile_id) for each in there
    ):
        return
    wanted = f"{part.profile} at slice {part.start}"
    at = next((each.profile for each in there if each.start == part.start), "")
    text = f"GPU instance {wanted} is gone from {gpu.device}"
    yield DriftKind.INSTANCE_MISSING, text, wanted, at or "missing"


def _partition(side: ComparedHost, allocation: Allocation) -> Iterator[Fault]:
    number = allocation.partition
    if number is None or side.unread("fabric"):
        return
    known = side.facts.fabric.partitions if side.facts.fabric else ()
    if not any(each.id == number and each.active for each in known):
        text = f"NVSwitch partition {number} is not active"
        yield DriftKind.PARTITION_INACTIVE, text, "active", "inactive"


def _next_for_device(
    side: ComparedHost, vm: VmRecord, allocation: Allocation, kind: DriftKind
) -> str:
    """A start makes what is missing; what is there otherwise must go by hand first."""
    start = f"vgpumgr vm start {vm.name}"
    if kind is DriftKind.DEVICE_DIFFERS:
        return f"{removal_commands(side.host, allocation)}, then {start}"
    gpu, vf = _function(side, allocation)
    if allocation.vf is None or gpu is None or vf is not None:
        return start
    file = "" if allocation.gpu in side.declared else " -f FILE with a Layout that turns VFs on"
    return f"vgpumgr layout apply{file}, then {start}"


_CHECKS: dict[Framework, Callable[[ComparedHost, Allocation], Iterator[Fault]]] = {
    Framework.MDEV: _mdev,
    Framework.VFIO_VF: _vendor_vf,
    Framework.PCI_VF: _plain_vf,
    Framework.PASSTHROUGH: _whole,
}
