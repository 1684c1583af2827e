"""Claims on the host against allocations: none missing, none another's, none left over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpumgr.engine.drift.advice import by_hand, mdev_away
from vgpumgr.engine.drift.devices import is_missing
from vgpumgr.engine.drift.side import Side
from vgpumgr.engine.supply import claim_unit
from vgpumgr.model import claim_units
from vgpumgr.model.drift import Drift, DriftKind
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import ClaimFacts
from vgpumgr.model.vm import Allocation, VmRecord

FOLDER = "/var/lib/vgpumgr/claims"

# Units that a VM takes: the claim of a layout is none.
_OF_VMS = (claim_units.mdev(""), claim_units.pci(""), "fabric-")


def drifts(side: Side) -> Iterator[Drift]:
    """Every unit that an allocation takes, then the claims of ours that no allocation knows."""
    if side.unread("claims"):
        return
    there = {claim.unit: claim for claim in side.facts.claims}
    for vm, allocation in side.to_compare():
        for unit in _units(side, allocation):
            if not side.unread(f"claims {unit}"):
                yield from _expected(side, vm, allocation, unit, there.get(unit))
    known = {unit for allocation in side.held for unit in _units(side, allocation)}
    for claim in side.facts.claims:
        ours = claim.fleet == side.fleet and claim.unit.startswith(_OF_VMS)
        if ours and claim.unit not in known and claim.vm not in side.work.names:
            yield _leftover(side, claim)
    yield from _layouts(side, there)


def _units(side: Side, allocation: Allocation) -> Iterator[str]:
    """Its device's, and the NVSwitch partition's if it is the one that carries it."""
    yield claim_unit(allocation)
    if allocation.partition is not None:
        place = (allocation.vm_id, allocation.partition)
        if allocation.id == min(a.id for a in side.held if (a.vm_id, a.partition) == place):
            yield claim_units.fabric(allocation.partition)


def _expected(
    side: Side, vm: VmRecord, allocation: Allocation, unit: str, claim: ClaimFacts | None
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
        next=_next(side, allocation, unit, claim),
    )


def _words(fleet: str, allocation: str, generation: int) -> str:
    return f"fleet {fleet}, allocation {allocation}, generation {generation}"


def _next(side: Side, allocation: Allocation, unit: str, claim: ClaimFacts | None) -> str:
    """Without its claim a device is not ours to touch; a start makes both anew."""
    start = f"vgpumgr vm start {allocation.vm}"
    if claim is not None:
        return f"find out who holds it; on {side.host}: cat {FOLDER}/{unit}.json"
    if is_missing(side, allocation):
        return start
    return f"{by_hand(side.host, allocation)}; {start}"


def _layouts(side: Side, there: Mapping[str, ClaimFacts]) -> Iterator[Drift]:
    """What is kept for the next boot. A layout that its host has not kept is a layout's drift."""
    for gpu in side.gpus.values():
        claim = there.get(claim_units.layout(gpu.facts.device))
        if gpu.host != side.host or claim is None or gpu.id in side.work.touched:
            continue
        declared, ours = gpu.id in side.declared, claim.fleet == side.fleet
        if ours and not declared:
            yield _layout(side, gpu, claim, DriftKind.CLAIM_LEFTOVER)
        elif declared and not ours:
            yield _layout(side, gpu, claim, DriftKind.CLAIM_DIFFERS)


def _layout(side: Side, gpu: GpuRecord, claim: ClaimFacts, kind: DriftKind) -> Drift:
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


def _leftover(side: Side, claim: ClaimFacts) -> Drift:
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
        + (f"{mdev_away(device)}, then " if there else "")
        + f"rm {FOLDER}/{claim.unit}.json",
    )
