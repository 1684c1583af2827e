"""After a round of probes: is the ledger older than the hosts, has a host forgotten its VMs?"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from vgpumgr.engine.amnesia import reinstalled
from vgpumgr.engine.amnesia.evidence import evidence, ids, leaps
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.model.freeze import Remembered
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.ports import Ledger

_MOST_LINES = 5


def notice(ledger: Ledger, seen: Collection[HostFacts]) -> None:
    """Freeze a ledger that hosts prove to be an older copy of itself."""
    lines = evidence(seen, recall(ledger, seen))
    if lines and ledger.frozen() is None:
        ledger.freeze(_why(lines))


def recall(ledger: Ledger, seen: Collection[HostFacts]) -> Remembered:
    """What the ledger knows now of all that these hosts show."""
    return ledger.remembered(**ids(seen, ledger.fleet_id()))


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
    if leaps(seen := facts.epoch_of(fleet), ledger.epoch()):
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
    gone = reinstalled.lost(facts, ledger.allocations(), fleet)
    if not gone:
        return ""
    _cordon(ledger, before.name)
    return f"{before.name} was cordoned: {reinstalled.reason(gone)}: vgpumgr drift {before.name}"


def _cordon(ledger: Ledger, name: str) -> None:
    record = ledger.host(name)
    if not record.cordoned:
        try:
            ledger.update_host(replace(record, cordoned=True))
        except StaleGeneration:
            _cordon(ledger, name)
