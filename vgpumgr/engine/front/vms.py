"""VMs as users ask for them: looked at, made, changed, moved."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from vgpumgr.engine.migration import MovePlan
from vgpumgr.engine.planning.preflight import check_images
from vgpumgr.engine.pooling import AtWork
from vgpumgr.engine.reserving.shelving import Stop
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import NOTHING, Session
from vgpumgr.engine.use_cases import (
    alternates,
    apply,
    delete,
    explain,
    move,
    pool,
    power,
    queue,
    shelve,
    users_at_work,
)
from vgpumgr.model.explanation import Explanation
from vgpumgr.model.journal import TaskRecord
from vgpumgr.model.plan import Plan
from vgpumgr.model.queue import Turn
from vgpumgr.model.vm import VmSpec


class Vms(Session):
    """VMs, one by one or by file."""

    __slots__ = ()

    def domain_xml(self, name: str) -> str:
        """A VM's XML as libvirt on its host has it."""
        vm = self.ledger.vm(name)
        return self.host(vm.host).domains.xml(vm.name)

    def reserve_alternates(
        self, operation: str, specs: Mapping[str, VmSpec] = NOTHING
    ) -> tuple[TaskRecord, ...]:
        """Plan VMs of an open operation that were refused at other places, and reserve these."""
        return alternates.reserve_alternates(self, operation, specs)

    def plan(self, desired: Sequence[VmSpec]) -> Plan:
        """Probe, then say what apply would do, or raise what it would: the images are looked at."""
        pool.refuse_names(self, [each.name for each in desired])
        planned, view = apply.plan(self, desired)
        placed = [each.placed for each in planned.actions if each.placed]
        records = {host.name: host for host in view.hosts}
        check_images(placed, records, self.hosts, self.lanes)
        return planned

    def explain(
        self, desired: Sequence[VmSpec], names: Collection[str] = ()
    ) -> tuple[Explanation, ...]:
        """What apply would say of these VMs (or of those of such names), by what was seen last."""
        pool.refuse_names(self, [each.name for each in desired])
        return explain.explain(self, desired, names)

    def explain_one(self, name: str) -> Explanation:
        """Why a VM waits in the queue; of any other, what was said when it was asked for last."""
        return explain.explain_one(self, name)

    def move_plan(
        self,
        name: str,
        to: str,
        *,
        cold: bool = False,
        timeout_s: float | None = None,
        with_users: bool = False,
    ) -> MovePlan:
        """Probe both hosts, then say how a VM would move, with all that keeps it from it."""
        how = move.Manner(cold=cold, timeout_s=timeout_s, with_users=with_users)
        return move.plan(self, name, to, how)[0]

    def queue_outlook(self) -> Turn:
        """What the queue's next turn would do, by what was seen last; nothing is looked at."""
        return queue.outlook(self)

    def apply(
        self,
        desired: Sequence[VmSpec],
        *,
        partial: bool = False,
        restart: bool = False,
        show: Callable[[Plan], None] = lambda _: None,
    ) -> tuple[Plan, Outcome]:
        """Plan, reserve all or nothing, execute. NoPlacement or Conflict change nothing. ``show``
        hears the plan before it is carried out.
        """
        pool.refuse_names(self, [each.name for each in desired])
        return apply.apply(self, desired, partial=partial, restart=restart, show=show)

    def delete(self, names: Sequence[str], *, keep_disks: bool, force: bool) -> Outcome:
        """Delete VMs. A running one needs ``force``; an interrupted deletion goes on. Conflict for
        a pool's desktop.
        """
        pool.refuse_desktops(self, names)
        return delete.delete(self, names, keep_disks=keep_disks, force=force)

    def start(self, names: Sequence[str]) -> Outcome:
        """Start VMs, their devices first, and what else their hosts lost."""
        return power.start(self, names)

    def users_on(self, names: Sequence[str]) -> tuple[AtWork, ...]:
        """Who is at work on these VMs, by the last look."""
        return users_at_work.users_on(self, names)

    def stop_vms(
        self, names: Sequence[str], *, force: bool, timeout_s: float, with_users: bool = False
    ) -> Outcome:
        """Stop VMs: ask the guest, or with ``force`` pull the plug. UsersAtWork where that would
        cut somebody off, unless ``with_users``.
        """
        if not with_users:
            again = f"vgpumgr vm stop {' '.join(names)} --with-users"
            users_at_work.refuse_users(
                self, names, next=f"{again}, or wait until they have logged off"
            )
        return power.power(self, names, "stop", force=force, timeout_s=timeout_s)

    def shelve(self, names: Sequence[str], stop: Stop) -> Outcome:
        """Stop VMs and give back what they hold; their disks are kept. Conflict for a desktop."""
        pool.refuse_desktops(self, names)
        return shelve.shelve(self, names, stop)

    def reboot(self, names: Sequence[str], *, force: bool, with_users: bool = False) -> Outcome:
        """Reboot VMs; UsersAtWork as :meth:`stop_vms`."""
        if not with_users:
            again = f"vgpumgr vm reboot {' '.join(names)} --with-users"
            users_at_work.refuse_users(
                self, names, next=f"{again}, or wait until they have logged off"
            )
        return power.power(self, names, "reboot", force=force)

    def migrate(
        self,
        name: str,
        to: str,
        *,
        cold: bool = False,
        timeout_s: float | None = None,
        with_users: bool = False,
    ) -> Outcome:
        """Move a VM to another host, running if it can; what keeps it from it is raised."""
        how = move.Manner(cold=cold, timeout_s=timeout_s, with_users=with_users)
        return move.migrate(self, name, to, how)
