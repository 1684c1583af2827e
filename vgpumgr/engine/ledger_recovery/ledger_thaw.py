"""`store thaw`: a frozen ledger takes in what its hosts know, and begins a new epoch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.inventory.observation import Observation
from vgpumgr.engine.inventory.rollback_detection import epoch_leaps, known_records, unknown_things
from vgpumgr.engine.ledger_recovery import rebuilt_ledger
from vgpumgr.engine.ledger_recovery.rebuilt_ledger import FleetReads, LedgerRebuild, RebuiltRow
from vgpumgr.engine.ledger_recovery.rebuilt_records import read
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.errors import Conflict, HostUnreachable, NotFound, PartlyDone
from vgpumgr.model.formats import counted
from vgpumgr.model.host import HostFacts
from vgpumgr.model.ledger_state import Freeze, HostsTruth

_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ThawReport:
    """The rows to learn, before or after the thaw. ``missing`` are hosts without a full answer, and
    why; ``epoch`` is the new epoch.
    """

    frozen: Freeze | None
    lines: tuple[RebuiltRow, ...]
    missing: Mapping[str, str]
    epoch: int
    truth: HostsTruth
    seen: Mapping[str, HostFacts]

    @property
    def conflicts(self) -> tuple[RebuiltRow, ...]:
        """The rows that the ledger cannot take in."""
        return tuple(line for line in self.lines if line.conflict)


def plan(
    context: EngineContext, forget: Collection[str] = (), without: Collection[str] = ()
) -> ThawReport:
    """Probe every host but ``without``, and compare. Nothing is taken in; an older ledger is frozen
    by the look.
    """
    for name in without:
        context.ledger.host(name)
    names = [host.name for host in context.ledger.hosts() if host.name not in without]
    observed = context.refresh(names) if names else Observation()
    view, seen = context.view(), observed.facts
    missing = {host: error.message for host, error in observed.failed.items()}
    missing |= {
        h: "it could not be read completely" for h, f in seen.items() if rebuilt_ledger.unread(f)
    }
    known = known_records(context.ledger, tuple(seen.values()))
    sight = FleetReads(
        seen=seen,
        found=read(context, seen, known),
        view=view,
        known=known,
        now=context.clock.now(),
        new_uuid=context.new_uuid,
    )
    learning = LedgerRebuild(sight, _forgotten(view, seen, missing, forget))
    truth = learning.truth()
    told = [facts.epoch_of(known.fleet) or 0 for facts in seen.values()]
    highest = max((epoch for epoch in told if not epoch_leaps(epoch, known.epoch)), default=0)
    return ThawReport(
        frozen=context.ledger.frozen(),
        lines=tuple(sorted(learning.lines, key=lambda line: line.host)),
        missing=dict(sorted(missing.items())),
        epoch=max(highest, sight.known.epoch) + 1,
        truth=truth,
        seen=seen,
    )


def thaw(
    context: EngineContext, *, without: Collection[str] = (), forget: Collection[str] = ()
) -> ThawReport:
    """Take in what hosts know; when the ledger knows all of it, lift the freeze in a new epoch.

    Hosts ``without`` which it is done are not asked, and cordoned: what they say does not freeze
    the ledger again. HostUnreachable for another host that did not answer. PartlyDone, still
    frozen, where something could not be taken in.
    """
    found = plan(context, forget, without)
    if found.frozen is None:
        raise Conflict("the ledger is not frozen", next="vgpumgr store thaw   (without --apply)")
    _require_answers(found)
    if found.truth != HostsTruth():
        context.ledger.take_in(found.truth)
    _require_known(context, found)
    for name in without:
        _cordon(context, name)
    context.ledger.thaw(found.epoch)
    return found


def _forgotten(
    view: LedgerView,
    seen: Mapping[str, HostFacts],
    missing: Mapping[str, str],
    names: Collection[str],
) -> frozenset[str]:
    """VMs that an operator says were deleted; Conflict where a host shows a trace of one."""
    for name in names:
        vm = next((vm for vm in view.vms if vm.name == name), None)
        if vm is None:
            raise NotFound(f"no VM {name}", next="vgpumgr vm list")
        held = [each for each in view.allocations if each.vm_id == vm.id]
        found = [*rebuilt_ledger.traces(vm, seen, held), *_elsewhere(vm.id, seen)]
        found += [f"{host}: {why}" for host, why in missing.items()]
        if found:
            raise Conflict(f"{name} is not gone", why="; ".join(dict.fromkeys(found)))
    return frozenset(names)


def _elsewhere(vm_id: str, seen: Mapping[str, HostFacts]) -> Iterator[str]:
    for facts in seen.values():
        for domain in facts.domains:
            if domain.ownership and domain.ownership.vm_id == vm_id:
                yield f"domain {domain.name} on {facts.host}"


def _require_answers(found: ThawReport) -> None:
    if silent := found.missing:
        first = next(iter(silent))
        raise HostUnreachable(
            f"{counted(len(silent), 'host')} did not report their state",
            why="; ".join(f"{host}: {why}" for host, why in list(silent.items())[:_MOST]),
            next=f"vgpumgr doctor {first}, or thaw with --without {first}: it is cordoned then",
        )


def _require_known(context: EngineContext, found: ThawReport) -> None:
    """Does the ledger know all that these hosts showed? What it does not keeps it frozen."""
    known = known_records(context.ledger, tuple(found.seen.values()))
    left = [line for facts in found.seen.values() for line in unknown_things(facts, known)]
    named = [f"{line.host}: {line.vm}: {line.conflict}" for line in found.conflicts]
    if left:
        raise PartlyDone(
            "the ledger stays frozen: it could not record everything that the hosts know",
            why="; ".join((named or left)[:_MOST]),
            next="settle these, then vgpumgr store thaw again",
        )


def _cordon(context: EngineContext, name: str) -> None:
    record = context.ledger.host(name)
    if not record.cordoned:
        context.ledger.update_host(replace(record, cordoned=True))
