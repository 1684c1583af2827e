"""The queue over a changing fleet: VMs arrive, wait, start and end, decided turn by turn."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

from vgpumgr.model.formats import span_words
from vgpumgr.model.licence import Licence
from vgpumgr.model.queue import (
    QueueDecision,
    QueueEvent,
    QueueRules,
    QueueStart,
    RoomReservation,
    RunningVm,
    Wait,
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
    """The waiting and the running VMs. Deterministic; not thread-safe; no I/O, no clock.

    Parameters are as for ``turn``; this class serves callers that keep a queue over many turns.
    """

    def __init__(
        self,
        placer: Placer,
        quotas: Sequence[Quota] = (),
        *,
        rules: QueueRules | None = None,
        held: Mapping[str, Amount] | None = None,
        ended: Collection[str] = (),
        licences: Sequence[Licence] = (),
    ) -> None:
        rules = rules or QueueRules()
        self.accounts = QueueAccounts(placer, quotas, held or {}, rules, licences)
        self.line = WaitingLine(rules)
        self.backfill = BackfillReservations(self.accounts.scratch, rules.heads)
        self.refusals: dict[str, StartRefusal] = {}
        self._of_kind: dict[Hashable, StartRefusal] = {}
        self._dependencies = Dependencies(ended)
        self._starter = VmStarter(self.accounts, self.backfill, rules)
        self._again = True
        self._heads = BackfillHeads(self.backfill)
        self._units: dict[str, dict[str, WaitingVm]] = {}

    def run(self, each: RunningVm) -> None:
        """The VM runs already, and the placer holds it."""
        self.accounts.take_in(each)
        self._dependencies.begun(each.vm.name)

    def add(self, each: WaitingVm) -> None:
        """The VM waits from now on."""
        demand = self.accounts.scratch.demand(each.vm)
        size = self.accounts.fleet_shares.share(self.accounts.fleet_shares.least(demand))
        self.line.add(each, self._kind(each), size)
        self._units.setdefault(owner_of(each), {})[each.vm.name] = each
        self._dependencies.add(each.vm.name, each.terms.after)
        self._look_again(each.vm.name)

    def cancel(self, name: str) -> WaitingVm:
        """The VM waits no more; it has not ended either."""
        each = self._leave(name)
        self._dependencies.cancelled(name)
        return each

    def end(self, name: str) -> RunningVm:
        """The VM has ended, and releases its place."""
        each = self.accounts.end(name)
        self.line.open()
        for other in self._dependencies.ended(name):
            self._look_again(other)
        return each

    def turn(self, now: float) -> list[QueueStart]:
        """The VMs that start now. They run when this returns; the VMs they preempt no longer do."""
        starts: list[QueueStart] = []
        while self._again:
            self._again = False
            self._serve_reserved(now, starts)
            for seat in in_turn(self.line, self.accounts.tenants, now):
                each = self.line.waiting.get(seat)
                if each is not None and self.line.is_open(seat):
                    self._serve(each, now, starts)
        self._again = True
        self._heads.new_turn()
        return starts

    def adopt(self, reservations: Sequence[RoomReservation], now: float) -> None:
        """Keep earlier reservations, where they can still be kept."""
        places: dict[tuple[str, str], list[RoomReservation]] = {}
        for each in reservations:
            if each.name in self.line.seat:
                owner = owner_of(self.line.waiting[self.line.seat[each.name]])
                places.setdefault((owner, each.host), []).append(each)
        for (owner, host), found in places.items():
            vms = [self._units[owner][each.name].vm for each in found]
            self.backfill.restore(owner, vms, host, found[0].ends, now)

    def held_back(self, name: str) -> tuple[str, ...]:
        """The names that the VM waits for and that have not ended."""
        return self._dependencies.open(name)

    def why(self, each: WaitingVm) -> StartRefusal:
        """Why the VM does not start: it was refused, or a VM of the same kind was."""
        own = self.refusals.get(each.vm.name)
        return self._of_kind.get(self._kind(each)) or own or StartRefusal(WaitReason.ROOM, "")

    def _serve_reserved(self, now: float, starts: list[QueueStart]) -> None:
        """Try the owners of reservations first; one that may not start any more loses its
        reservation.
        """
        for owner in self.backfill.owners:
            each = next(iter(self._units[owner].values()))
            refusal = self._serve(each, now, starts)
            if refusal is not None and not refusal.room:
                self._free(owner)
            elif refusal is not None:
                self.backfill.renew(owner, now)

    def _serve(self, each: WaitingVm, now: float, starts: list[QueueStart]) -> StartRefusal | None:
        """Start the VM with its group; a refusal is kept and returned."""
        unit = sorted(self._units[owner_of(each)].values(), key=self._largest_first)
        held = next((other for other in unit if self._dependencies.open(other.vm.name)), None)
        if held is not None:
            text = f"{held.vm.name}, with which it starts, is after others"
            found: list[QueueStart] | StartRefusal = StartRefusal(WaitReason.TOGETHER, text)
        else:
            found = self._starter.start(unit, now)
        if isinstance(found, StartRefusal):
            self._refused(unit, found, now)
            return found
        starts += found
        for start in found:
            self._leave(start.waiting.vm.name)
            self._dependencies.begun(start.waiting.vm.name)
            if start.preempts:
                self._open()
        return None

    def _refused(self, unit: Sequence[WaitingVm], refusal: StartRefusal, now: float) -> None:
        for each in unit:
            self.refusals[each.vm.name] = refusal
            self._of_kind[self._kind(each)] = refusal
            if not self.accounts.scratch.demand(each.vm).together_with:
                self.line.close(self.line.seat[each.vm.name], whatever=refusal.whatever)
        if refusal.room and self._heads.consider(
            owner_of(unit[0]), unit, lambda owner: self._rank(owner, now), now
        ):
            self._open()

    def _rank(self, owner: str, now: float) -> float:
        name = next(iter(self._units[owner]))
        return self.line.rank(self.line.seat[name], now)

    def _free(self, owner: str) -> None:
        """Give up the reservation of the owner."""
        if self.backfill.drop(owner):
            self._open()

    def _open(self) -> None:
        """Something was freed: every VM may be tried again."""
        self.line.open()
        self._again = True

    def _kind(self, each: WaitingVm) -> Hashable:
        """What makes requests interchangeable but for their runtimes."""
        terms, vm = each.terms, each.vm
        demand = self.accounts.scratch.demand(vm)
        return demand, vm.tenant, terms.priority, terms.spot, terms.together

    def _largest_first(self, each: WaitingVm) -> tuple[float, str]:
        demand = self.accounts.scratch.demand(each.vm)
        return -self.accounts.fleet_shares.share(
            self.accounts.fleet_shares.least(demand)
        ), each.vm.name

    def _look_again(self, name: str) -> None:
        seat = self.line.seat.get(name)
        if seat is not None:
            self.line.set_ready(seat, ready=not self._dependencies.open(name))

    def _leave(self, name: str) -> WaitingVm:
        each = self.line.remove(name)
        owner = owner_of(each)
        del self._units[owner][name]
        if not self._units[owner]:
            del self._units[owner]
            self._free(owner)
        self.refusals.pop(name, None)
        return each


def waits(queue: WaitingQueue, now: float) -> Iterator[Wait]:
    """Why each waiting VM waits, the next to start first; VMs that wait for others to end come
    last.
    """
    kept = {each.name: each for each in reserved_room(queue)}
    running = queue.accounts.scratch.running
    for position, seat in enumerate(queue.line.everybody(now), start=1):
        each = queue.line.waiting[seat]
        refusal = _after(queue, each, running) or queue.why(each)
        reservation = kept.get(each.vm.name)
        if reservation is not None and refusal.room:
            refusal = _with_room_kept(refusal, reservation, now)
        yield Wait(
            waiting=each,
            position=position,
            why=refusal.why,
            text=refusal.text,
            reservation=reservation,
            facts=refusal.facts,
        )


def reserved_room(queue: WaitingQueue) -> Iterator[RoomReservation]:
    """The reserved capacity, VM by VM."""
    for reservation in queue.backfill.of_host.values():
        yield from reservation.by_vm()


def _after(
    queue: WaitingQueue, each: WaitingVm, running: Mapping[str, object]
) -> StartRefusal | None:
    open_names = queue.held_back(each.vm.name)
    if not open_names:
        return None
    states = [f"{name} ({_state(queue, name, running)})" for name in open_names]
    return StartRefusal(
        WaitReason.AFTER, f"after {', '.join(states)}", {"after": ", ".join(open_names)}
    )


def _state(queue: WaitingQueue, name: str, running: Mapping[str, object]) -> str:
    if name in running:
        return "running"
    return "waiting" if name in queue.line.seat else "not known to have ended"


def _with_room_kept(refusal: StartRefusal, kept: RoomReservation, now: float) -> StartRefusal:
    ends = _listed(kept.ends)
    text = f"{refusal.text}; capacity is reserved on {kept.host}"
    if kept.by is None:
        text += f", available when {ends} ended" if ends else ""
        return StartRefusal(refusal.why, text, {**refusal.facts, "host": kept.host})
    text += f", available in {span_words(kept.by - now)} at the latest" + (
        f", when {ends} ended" if ends else ""
    )
    return StartRefusal(refusal.why, text, {**refusal.facts, "host": kept.host, "by": kept.by})


def _listed(names: Sequence[str]) -> str:
    if len(names) <= 1:
        return f"{names[0]} has" if names else ""
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{shown} have"


def turn(
    placer: Placer,
    waiting: Sequence[WaitingVm],
    running: Sequence[RunningVm],
    quotas: Sequence[Quota],
    now: float,
    *,
    rules: QueueRules | None = None,
    ended: Collection[str] = (),
    held: Mapping[str, Amount] | None = None,
    reservations: Sequence[RoomReservation] = (),
    licences: Sequence[Licence] = (),
) -> QueueDecision:
    """Decide which VMs start now, and why every other one waits.

    ``placer`` is the supply with every VM of ``running`` committed to it, and nothing else. When
    this returns it has the started VMs too, and no longer the preempted ones. Names are unique
    among ``waiting`` and ``running``. ``ended`` names VMs that have ended: a VM that is neither
    there nor waiting nor running is not known to have ended, and VMs with it in ``after`` wait.
    ``held`` is what tenants hold beside ``running`` (VMs that no turn may stop or wait for), by
    tenant. ``licences`` are the seats that are declared. ``reservations`` are those of the turn
    before, so that a host once chosen stays; without them they are computed again. The same input
    gives the same turn.
    """
    queue = WaitingQueue(placer, quotas, rules=rules, held=held, ended=ended, licences=licences)
    for runner in running:
        queue.run(runner)
    for waiter in sorted(waiting, key=lambda each: (each.since, each.vm.name)):
        queue.add(waiter)
    queue.adopt(reservations, now)
    starts = tuple(queue.turn(now))
    waiting_still = tuple(waits(queue, now))
    return QueueDecision(
        starts=starts,
        waits=waiting_still,
        reservations=tuple(reserved_room(queue)),
        events=tuple(_events(starts, waiting_still, reservations, now)),
    )


def _events(
    starts: Sequence[QueueStart],
    waits: Sequence[Wait],
    before: Sequence[RoomReservation],
    now: float,
) -> Iterator[QueueEvent]:
    for start in starts:
        name = start.waiting.vm.name
        waited = max(0.0, now - start.waiting.since)
        text = f"{name} starts on {start.placed.host} after waiting {waited:.0f} s"
        yield QueueEvent(code="started", vm=name, text=text)
        for victim in start.preempts:
            yield QueueEvent(code="preempted", vm=victim, text=f"{victim} is preempted by {name}")
    known = {(each.name, each.host) for each in before}
    for wait in waits:
        name, room = wait.waiting.vm.name, wait.reservation
        if room is not None and (name, room.host) not in known:
            yield QueueEvent(
                code="reserved", vm=name, text=f"capacity is reserved on {room.host}: {name}"
            )
        if wait.why is WaitReason.NEVER:
            yield QueueEvent(code="never", vm=name, text=f"{name} can never start: {wait.text}")
