"""The queue over a changing fleet: VMs arrive, wait, start and end, turn by turn."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

from vgpumgr.model.queue import (
    QueueRules,
    QueueStart,
    RoomReservation,
    RunningVm,
    WaitingVm,
    WaitReason,
)
from vgpumgr.model.quota import Amount, Quota
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.queue.backfill import BackfillHeads, BackfillReservations
from vgpumgr.placement.queue.queue_accounts import QueueAccounts
from vgpumgr.placement.queue.vm_starter import StartRefusal, VmStarter, owner_of
from vgpumgr.placement.queue.waiting_order import Dependencies, WaitingLine, in_turn


class WaitingQueue:
    """Who waits and who runs. Deterministic; not thread-safe; no I/O, no clock.

    Everything is as for ``turn``; this is for who keeps a queue over many turns.
    """

    def __init__(
        self,
        placer: Placer,
        quotas: Sequence[Quota] = (),
        *,
        rules: QueueRules | None = None,
        held: Mapping[str, Amount] | None = None,
        ended: Collection[str] = (),
    ) -> None:
        rules = rules or QueueRules()
        self.books = QueueAccounts(placer, quotas, held or {}, rules)
        self.line = WaitingLine(rules)
        self.promises = BackfillReservations(self.books.ground, rules.heads)
        self.refusals: dict[str, StartRefusal] = {}
        self._of_kind: dict[Hashable, StartRefusal] = {}
        self._afters = Dependencies(ended)
        self._desk = VmStarter(self.books, self.promises, rules)
        self._again = True
        self._heads = BackfillHeads(self.promises)
        self._units: dict[str, dict[str, WaitingVm]] = {}

    def run(self, each: RunningVm) -> None:
        """It runs already, and the placer holds it."""
        self.books.take_in(each)
        self._afters.begun(each.vm.name)

    def add(self, each: WaitingVm) -> None:
        """It waits from now on."""
        demand = self.books.ground.demand(each.vm)
        size = self.books.sizes.share(self.books.sizes.least(demand))
        self.line.add(each, self._kind(each), size)
        self._units.setdefault(owner_of(each), {})[each.vm.name] = each
        self._afters.add(each.vm.name, each.terms.after)
        self._look_again(each.vm.name)

    def cancel(self, name: str) -> WaitingVm:
        """It waits no more; it has not ended either."""
        each = self._leave(name)
        self._afters.cancelled(name)
        return each

    def end(self, name: str) -> RunningVm:
        """It has come to its end, and gives its place back."""
        each = self.books.end(name)
        self.line.open()
        for other in self._afters.ended(name):
            self._look_again(other)
        return each

    def turn(self, now: float) -> list[QueueStart]:
        """What starts now; it runs when this returns, and what it preempts runs no more."""
        starts: list[QueueStart] = []
        while self._again:
            self._again = False
            self._promised(now, starts)
            for seat in in_turn(self.line, self.books.tenants, now):
                each = self.line.who.get(seat)
                if each is not None and self.line.is_open(seat):
                    self._serve(each, now, starts)
        self._again = True
        self._heads.new_turn()
        return starts

    def adopt(self, reservations: Sequence[RoomReservation], now: float) -> None:
        """Keep the room that was kept before, where that can still be."""
        places: dict[tuple[str, str], list[RoomReservation]] = {}
        for each in reservations:
            if each.name in self.line.seat:
                owner = owner_of(self.line.who[self.line.seat[each.name]])
                places.setdefault((owner, each.host), []).append(each)
        for (owner, host), found in places.items():
            vms = [self._units[owner][each.name].vm for each in found]
            self.promises.restore(owner, vms, host, found[0].ends, now)

    def held_back(self, name: str) -> tuple[str, ...]:
        """The names that it is after and that have not ended."""
        return self._afters.open(name)

    def why(self, each: WaitingVm) -> StartRefusal:
        """Why it does not start: it was refused, or one just like it was."""
        own = self.refusals.get(each.vm.name)
        return self._of_kind.get(self._kind(each)) or own or StartRefusal(WaitReason.ROOM, "")

    def _promised(self, now: float, starts: list[QueueStart]) -> None:
        """Those for whom room is kept come first; who may not have it any more loses it."""
        for owner in self.promises.owners:
            each = next(iter(self._units[owner].values()))
            refusal = self._serve(each, now, starts)
            if refusal is not None and not refusal.room:
                self._free(owner)
            elif refusal is not None:
                self.promises.renew(owner, now)

    def _serve(self, each: WaitingVm, now: float, starts: list[QueueStart]) -> StartRefusal | None:
        """Start it, with those that it starts together with; a refusal is noted, and told."""
        unit = sorted(self._units[owner_of(each)].values(), key=self._largest_first)
        held = next((other for other in unit if self._afters.open(other.vm.name)), None)
        if held is not None:
            text = f"{held.vm.name}, with which it starts, is after others"
            found: list[QueueStart] | StartRefusal = StartRefusal(WaitReason.TOGETHER, text)
        else:
            found = self._desk.start(unit, now)
        if isinstance(found, StartRefusal):
            self._refused(unit, found, now)
            return found
        starts += found
        for start in found:
            self._leave(start.waiting.vm.name)
            self._afters.begun(start.waiting.vm.name)
            if start.preempts:
                self._open()
        return None

    def _refused(self, unit: Sequence[WaitingVm], refusal: StartRefusal, now: float) -> None:
        for each in unit:
            self.refusals[each.vm.name] = refusal
            self._of_kind[self._kind(each)] = refusal
            if not self.books.ground.demand(each.vm).together_with:
                self.line.close(self.line.seat[each.vm.name], whatever=refusal.whatever)
        if refusal.room and self._heads.consider(
            owner_of(unit[0]), unit, lambda owner: self._rank(owner, now), now
        ):
            self._open()

    def _rank(self, owner: str, now: float) -> float:
        name = next(iter(self._units[owner]))
        return self.line.rank(self.line.seat[name], now)

    def _free(self, owner: str) -> None:
        """Nothing is kept for it any more."""
        if self.promises.drop(owner):
            self._open()

    def _open(self) -> None:
        """Something was freed: everybody may ask again."""
        self.line.open()
        self._again = True

    def _kind(self, each: WaitingVm) -> Hashable:
        """What makes requests interchangeable but for their runtimes."""
        terms, vm = each.terms, each.vm
        demand = self.books.ground.demand(vm)
        return demand, vm.tenant, terms.priority, terms.spot, terms.together

    def _largest_first(self, each: WaitingVm) -> tuple[float, str]:
        demand = self.books.ground.demand(each.vm)
        return -self.books.sizes.share(self.books.sizes.least(demand)), each.vm.name

    def _look_again(self, name: str) -> None:
        seat = self.line.seat.get(name)
        if seat is not None:
            (self.line.hold if self._afters.open(name) else self.line.let)(seat)

    def _leave(self, name: str) -> WaitingVm:
        each = self.line.remove(name)
        owner = owner_of(each)
        del self._units[owner][name]
        if not self._units[owner]:
            del self._units[owner]
            self._free(owner)
        self.refusals.pop(name, None)
        return each
