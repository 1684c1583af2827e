"""Foreign things on managed GPUs, and foreign domains that use devices of ours."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.engine.drift.device_drift import FOLDER
from vgpumgr.engine.drift.host_comparison import ComparedHost, mdev_removal, vgpu_removal
from vgpumgr.engine.inventory.gpu_usage import claim_unit
from vgpumgr.gpu import offers
from vgpumgr.model import formats
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.drift import Drift, DriftKind
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import ClaimFacts


def foreign_drifts(side: ComparedHost) -> Iterator[Drift]:
    """Foreign things on every GPU of the host, and our devices in foreign domains.

    The ledger has no history of what was there before us: a foreign thing is named as long as it
    takes room on a GPU, whether it is new or not.
    """
    strangers = [each for each in side.facts.domains if not side.is_ours(each)]
    if not side.unread("libvirt", "domains"):
        yield from _taken(side, strangers)
    if side.unread("claims"):
        return
    for gpu in side.own_gpus:
        yield from _mdevs(side, gpu, strangers)
        yield from _vgpus(side, gpu, strangers)
        yield from _functions(side, gpu, strangers)


def _taken(side: ComparedHost, strangers: list[DomainFacts]) -> Iterator[Drift]:
    for allocation in side.held:
        ours = {allocation.device, *allocation.companions}
        claim = _anothers(side, claim_unit(allocation))
        for domain in strangers:
            way_out = f"virsh edit {domain.name}   (take the device out)"
            for device in sorted(ours & set(domain.devices)):
                yield Drift(
                    kind=DriftKind.DEVICE_TAKEN,
                    host=side.host,
                    gpu=allocation.gpu,
                    vm=allocation.vm,
                    subject=device,
                    text=f"{device} of {allocation.vm} is in domain {domain.name}, "
                    "which is foreign"
                    + (f", claimed by fleet {claim.fleet} for {claim.vm}" if claim else ""),
                    wanted=allocation.vm,
                    found=f"domain {domain.name}",
                    next=f"on {side.host}: {_whose(claim) if claim else way_out}",
                )


def _mdevs(side: ComparedHost, gpu: GpuRecord, strangers: list[DomainFacts]) -> Iterator[Drift]:
    parents = {gpu.facts.device, *(vf.address for vf in gpu.facts.vfs)}
    for mdev in side.facts.mdevs:
        unit = formats.mdev_claim(mdev.uuid)
        if mdev.parent in parents and _is_foreign(side, mdev.uuid, unit):
            what = f"mdev {mdev.uuid} ({_profile(gpu, mdev.type_id)})"
            yield _device(side, gpu, mdev.uuid, unit, what, mdev_removal(mdev.uuid), strangers)


def _vgpus(side: ComparedHost, gpu: GpuRecord, strangers: list[DomainFacts]) -> Iterator[Drift]:
    for vf in gpu.facts.vfs:
        type_id = vf.vendor.type_id if vf.vendor else None
        unit = formats.pci_claim(vf.address)
        if type_id and _is_foreign(side, vf.address, unit):
            what = f"a vGPU ({_profile(gpu, str(type_id))}) on VF {vf.address}"
            yield _device(side, gpu, vf.address, unit, what, vgpu_removal(vf.address), strangers)


def _profile(gpu: GpuRecord, type_id: str) -> str:
    names = {each.type_id: each.profile for each in offers(gpu.facts)}
    return names.get(type_id, type_id)


def _functions(side: ComparedHost, gpu: GpuRecord, strangers: list[DomainFacts]) -> Iterator[Drift]:
    """The whole GPU or a VF in a foreign domain, or under another fleet's claim."""
    vgpus = {vf.address for vf in gpu.facts.vfs if vf.vendor and vf.vendor.type_id}
    for address in (gpu.facts.device, *(vf.address for vf in gpu.facts.vfs)):
        if address in vgpus or not _is_foreign(side, address, formats.pci_claim(address)):
            continue
        if claim := _anothers(side, formats.pci_claim(address)):
            yield _drift(side, gpu, address, _claimed(address, claim), _whose(claim))
        elif user := _user(address, strangers):
            way_out = f"virsh edit {user}   (take the device out)"
            yield _drift(side, gpu, address, _used(address, user), way_out)


def _device(
    side: ComparedHost,
    gpu: GpuRecord,
    device: str,
    unit: str,
    what: str,
    away: str,
    strangers: list[DomainFacts],
) -> Drift:
    """Drift of a foreign device: another fleet's belongs to that fleet; any other can be removed by
    hand.
    """
    if claim := _anothers(side, unit):
        return _drift(side, gpu, device, _claimed(what, claim), _whose(claim))
    return _drift(side, gpu, device, _used(what, _user(device, strangers)), away)


def _anothers(side: ComparedHost, unit: str) -> ClaimFacts | None:
    """The claim of another fleet on a unit: its device is that fleet's, whatever domain uses it."""
    others = (each for each in side.facts.claims if each.fleet != side.fleet)
    return next((each for each in others if each.unit == unit), None)


def _claimed(what: str, claim: ClaimFacts) -> str:
    return f"{what}, claimed by fleet {claim.fleet} for {claim.vm},"


def _whose(claim: ClaimFacts) -> str:
    return f"cat {FOLDER}/{claim.unit}.json   (it says whose it is)"


def _is_foreign(side: ComparedHost, device: str, unit: str) -> bool:
    """Neither held nor left over by us."""
    held = any(device in {each.device, *each.companions} for each in side.held)
    return not held and not any(
        claim.unit == unit and claim.fleet == side.fleet for claim in side.facts.claims
    )


def _user(device: str, strangers: list[DomainFacts]) -> str:
    """The foreign domain that names the device; empty without one."""
    return next((each.name for each in strangers if device in each.devices), "")


def _used(what: str, user: str) -> str:
    return f"{what} in domain {user}" if user else what


def _drift(side: ComparedHost, gpu: GpuRecord, subject: str, what: str, way_out: str) -> Drift:
    return Drift(
        kind=DriftKind.FOREIGN,
        host=side.host,
        gpu=gpu.id,
        subject=subject,
        text=f"{gpu.facts.model} {gpu.facts.device}: {what} takes capacity and is foreign",
        wanted="free",
        found=what,
        next=f"on {side.host}: {way_out}   (or leave it: drift --ignore-foreign)",
    )
