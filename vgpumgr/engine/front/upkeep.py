"""What keeps fleet and ledger together: compared, healed, adopted, defragmented, resumed."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine import drift
from vgpumgr.engine.adoption.candidate import Findings
from vgpumgr.engine.amnesia import thawing
from vgpumgr.engine.defrag import DefragPlan, Wanted
from vgpumgr.engine.heal.report import Chosen, Healed, HealPlan
from vgpumgr.engine.running import operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import adopt, defrag, heal, logoff
from vgpumgr.model.defrag import LogoffMove
from vgpumgr.model.drift import DriftReport


class Upkeep(Session):
    """Fleet and ledger kept together."""

    __slots__ = ()

    def drift(self, hosts: Sequence[str] = ()) -> DriftReport:
        """Probe, and name every difference between the ledger and these hosts (all without)."""
        return drift.survey(self, hosts)

    def adoptable(self, hosts: Sequence[str] = ()) -> Findings:
        """Probe, and say what of other hands' work could be adopted, and why the rest cannot."""
        return adopt.find(self, hosts)[0]

    def adopt(self, host: str, names: Sequence[str], *, tenant: str = "default") -> Outcome:
        """Bring domains of other hands under management as they are; Conflict says what keeps one
        from it.
        """
        return adopt.adopt(self, host, names, tenant)

    def heal_plan(self, chosen: Chosen) -> HealPlan:
        """Probe, and say what ``heal`` would do about every difference, and what an operator."""
        return heal.plan(self, chosen)

    def heal(self, chosen: Chosen) -> Healed:
        """Do what is ours to do about these differences, then look again."""
        return heal.apply(self, chosen)

    def lift(self, gpu: str) -> None:
        """Use a quarantined GPU (our id) again; Conflict where it does not look whole."""
        heal.lift(self, gpu)

    def defrag_plan(self, wanted: Wanted) -> tuple[DefragPlan, tuple[str, ...]]:
        """Probe, and say which moves would make room; a line for each host that was left out."""
        return defrag.plan(self, wanted)

    def defrag(self, planned: DefragPlan) -> defrag.Defragmented:
        """Carry planned moves out, one after the other; the first that fails ends it."""
        return defrag.apply(self, planned)

    def cancel_logoff_move(self, vm: str) -> LogoffMove:
        """Let a VM's move wait no more for a logoff; NotFound where none waits."""
        return logoff.cancel(self, vm)

    def end_moves(self) -> Outcome:
        """End the moves that were cut, whoever began them."""
        return defrag.go_on(self)

    def thaw_plan(self, *, without: Sequence[str] = (), forget: Sequence[str] = ()) -> thawing.Thaw:
        """Probe every host but some, and say what they know that the ledger does not."""
        return thawing.plan(self, forget, without)

    def thaw(self, *, without: Sequence[str] = (), forget: Sequence[str] = ()) -> thawing.Thaw:
        """Take that in, and allocate again in a new epoch; see :func:`thawing.thaw`."""
        return thawing.thaw(self, without=without, forget=forget)

    def resume(self, operation: str) -> Outcome:
        """Finish an interrupted operation (id or unique prefix): look first, then go on."""
        return operations.resume(self, operation)

    def undo(self, operation: str) -> Outcome:
        """Take back the unfinished creations and moves of an operation; what is done stays."""
        return operations.undo(self, operation)
