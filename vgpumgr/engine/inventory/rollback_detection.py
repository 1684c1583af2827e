"""Detects a ledger older than its hosts (it freezes) and a host that lost its marks (it is
cordoned).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from vgpumgr.model import formats
from vgpumgr.model.allocation import Allocation, AllocationState
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.model.host import ClaimFacts, HostFacts, HostRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.ledger_state import Remembered

# Every verb that changes a host leaves its epoch there, and every device of ours a claim. A host
# that says it has neither, and holds allocations in the ledger, has forgotten them.


_TELLING = frozenset({"epoch", "epochs", "claims", "helper"})
_MADE = frozenset({AllocationState.ACTIVE, AllocationState.ORPHANED})


def forgotten_allocations(
    facts: HostFacts, held: Iterable[Allocation], fleet: str
) -> tuple[Allocation, ...]:
    """The allocations that a host has forgotten; () for one that remembers, or cannot be read."""
    if facts.epoch_of(fleet) != 0 or _TELLING & {each.part.split(" ")[0] for each in facts.unknown}:
        return ()
    if any(claim.fleet == fleet for claim in facts.claims):
        return ()
    return tuple(each for each in held if each.host == facts.host and each.state in _MADE)


def reason(allocations: Iterable[Allocation]) -> str:
    """The evidence for a rollback, in words."""
    every = tuple(allocations)
    return (
        f"it knows nothing of the {len(every)} allocations that the ledger has on it: it was "
        "reinstalled, or is another machine"
    )


# The ledger is always written before a host. So whatever was on a host before the ledger was read
# is in it, unless the ledger is an older copy of itself. Rows are closed, never deleted: what is
# left over of something released is known, and no evidence.


_LAYOUT = formats.layout_claim("")

FARTHEST = 1_000
"""Epochs by which a ledger can be behind: each is a take-over or a restore since its backup."""


def shown_ids(seen: Iterable[HostFacts], fleet: str) -> dict[str, set[str]]:
    """The ids to ask the ledger for: ids of ``vms``, ``allocations`` and ``gpus``."""
    wanted: dict[str, set[str]] = {"vms": set(), "allocations": set(), "gpus": set()}
    for facts in seen:
        wanted["vms"] |= {d.ownership.vm_id for d in domains_of(facts, fleet) if d.ownership}
        for claim in claims_of(facts, fleet):
            wanted["gpus" if is_layout(claim) else "allocations"].add(claim.allocation)
    return wanted


def evidence(seen: Iterable[HostFacts], known: Remembered) -> tuple[str, ...]:
    """A sentence for each thing that a host knows and the ledger does not; () for a sound one.

    ``known`` must have been read after these probes.
    """
    return tuple(
        line for facts in seen for line in (*_epoch(facts, known), *unknown_things(facts, known))
    )


def epoch_leaps(seen: int | None, epoch: int) -> bool:
    """Is what a host has seen of our epoch so far ahead that no controller of ours was there?"""
    return seen is not None and seen > epoch + FARTHEST


def _epoch(facts: HostFacts, known: Remembered) -> Iterator[str]:
    seen = facts.epoch_of(known.fleet)
    if seen is not None and seen > known.epoch and not epoch_leaps(seen, known.epoch):
        yield f"{facts.host} has seen epoch {seen}, the ledger is at {known.epoch}"


def unknown_things(facts: HostFacts, known: Remembered) -> Iterator[str]:
    """Domains and claims that the ledger does not know, or not as they are."""
    for domain in domains_of(facts, known.fleet):
        mark = domain.ownership
        assert mark is not None
        if ledger_is_behind(known.vms.get(mark.vm_id), mark.generation):
            told = _words(known.vms.get(mark.vm_id), "VM")
            yield f"{facts.host} has {domain.name} at generation {mark.generation}, {told}"
    for claim in claims_of(facts, known.fleet):
        yield from _claim(facts.host, claim, known)


def _claim(host: str, claim: ClaimFacts, known: Remembered) -> Iterator[str]:
    if is_of_nic(claim):
        return  # it is by the VM's id, and the mark of its domain says more
    layout = is_layout(claim)
    ours = (known.gpus if layout else known.allocations).get(claim.allocation)
    if layout and ours is None:
        # The GPU was seen first in the time that was lost, and has a new key since: its layout
        # holds nothing back.
        return
    if ledger_is_behind(ours, claim.generation):
        told = _words(ours, "layout" if layout else "allocation")
        yield f"{host} has {claim.unit} claimed for {claim.vm}, {told}"


def ledger_is_behind(ours: int | None, theirs: int) -> bool:
    """Does a host have what we never had, or a newer one?"""
    return ours is None or ours < theirs


def _words(ours: int | None, what: str) -> str:
    if ours is None:
        return f"the ledger never had that {what}"
    return f"the ledger has that {what} at generation {ours}"


def is_layout(claim: ClaimFacts) -> bool:
    """Is it of a GPU's partitioning, and of no VM?"""
    return claim.unit.startswith(_LAYOUT)


def is_of_nic(claim: ClaimFacts) -> bool:
    """Is it of a VF that is a NIC of a VM?"""
    return claim.wanted.get("kind") == "nic"


def claims_of(facts: HostFacts, fleet: str) -> Iterator[ClaimFacts]:
    """The claims of a fleet."""
    return (claim for claim in facts.claims if claim.fleet == fleet)


def domains_of(facts: HostFacts, fleet: str) -> Iterator[DomainFacts]:
    """The domains that carry a fleet's mark."""
    return (each for each in facts.domains if each.ownership and each.ownership.fleet == fleet)


_MOST_LINES = 5


def freeze_if_older(ledger: Ledger, seen: Collection[HostFacts]) -> None:
    """Freeze a ledger that hosts prove to be an older copy of itself."""
    lines = evidence(seen, known_records(ledger, seen))
    if lines and ledger.frozen() is None:
        ledger.freeze(_why(lines))


def known_records(ledger: Ledger, seen: Collection[HostFacts]) -> Remembered:
    """The ledger's present records of everything that these hosts show."""
    return ledger.remembered(**shown_ids(seen, ledger.fleet_id()))


def _why(lines: tuple[str, ...]) -> str:
    more = len(lines) - _MOST_LINES
    shown = [*lines[:_MOST_LINES], *([f"and {more} more"] if more > 0 else [])]
    return "the ledger is older than the hosts: " + "; ".join(shown)


def set_aside(ledger: Ledger, before: HostRecord, facts: HostFacts) -> str:
    """Cordon a host that was reinstalled since its last look, or that says what cannot be of our
    epoch, and say so; empty for any other.

    Nothing is freed. ``before`` was read before this probe.
    """
    fleet = ledger.fleet_id()
    if epoch_leaps(seen := facts.epoch_of(fleet), ledger.epoch()):
        if before.cordoned:
            return ""
        _cordon(ledger, before.name)
        return (
            f"{before.name} was cordoned: it claims to have seen epoch {seen} of this fleet, "
            f"which is at {ledger.epoch()}: somebody else wrote that there; as root on "
            f"{before.name}: rm /var/lib/vgpumgr/epochs/{fleet}, then "
            f"vgpumgr host uncordon {before.name}"
        )
    if before.facts is None or before.facts.epoch_of(fleet) == 0 or facts.epoch_of(fleet) != 0:
        return ""
    gone = forgotten_allocations(facts, ledger.allocations(), fleet)
    if not gone:
        return ""
    _cordon(ledger, before.name)
    return f"{before.name} was cordoned: {reason(gone)}: vgpumgr drift {before.name}"


def _cordon(ledger: Ledger, name: str) -> None:
    record = ledger.host(name)
    if not record.cordoned:
        try:
            ledger.update_host(replace(record, cordoned=True))
        except StaleGeneration:
            _cordon(ledger, name)
