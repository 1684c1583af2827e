"""The engine: every use case that looks at the fleet or changes it, by the name front ends call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from vgpumgr.engine.adoption import adoptions
from vgpumgr.engine.adoption.candidate import AdoptionFindings
from vgpumgr.engine.backups import (
    backup_removal,
    backup_restore,
    backup_search,
    backup_verification,
    vm_backups,
)
from vgpumgr.engine.defrag import defrag_apply
from vgpumgr.engine.drift import drift_survey
from vgpumgr.engine.heal import heal_run
from vgpumgr.engine.hosts import (
    host_balance,
    host_drain,
    host_evacuation,
    host_maintenance,
    host_marks,
    host_membership,
    host_removal,
)
from vgpumgr.engine.hosts.evacuation_plan import EvacuationPlan
from vgpumgr.engine.images import image_import, image_retirement
from vgpumgr.engine.layouts import gpu_reset, layout_run
from vgpumgr.engine.ledger_recovery import ledger_thaw
from vgpumgr.engine.migration import logoff_moves, users_at_work, vm_migrate
from vgpumgr.engine.migration.move_plan import MovePlan
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import NOTHING, EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.planning.disk_images import check_planned
from vgpumgr.engine.pools import (
    bookings,
    desktop_assignment,
    pool_apply,
    pool_changes,
    pool_cycle,
    protected_desktops,
)
from vgpumgr.engine.queue import explain_waiting, queue_cycle
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.engine.vms import (
    rolling_change,
    vm_alternates,
    vm_apply,
    vm_clone,
    vm_deletion,
    vm_power,
    vm_rename,
    vm_shelving,
    vm_snapshots,
)
from vgpumgr.engine.vms.vm_apply import NOTHING_BEFORE, ChangesBefore
from vgpumgr.engine.vms.vm_pruning import NOTHING_PRUNED, Pruning
from vgpumgr.model.apply_plan import Plan
from vgpumgr.model.layout import LayoutPlan, LayoutSpec
from vgpumgr.model.operation import TaskRecord
from vgpumgr.model.placement import Explanation
from vgpumgr.model.rolling import NOT_ROLLING, RollingVms
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_backup import VmBackup


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine(EngineContext):
    """The context with the use cases as its methods.

    Most are the functions themselves. The others add what concerns a request of a user alone:
    desktops of pools are refused, users at work are named.
    """

    # VMs
    start = vm_power.start
    clone_spec = vm_clone.clone_spec
    users_on = users_at_work.users_on
    explain_one = explain_waiting.explain_one
    queue_outlook = queue_cycle.forecast

    def domain_xml(self, name: str) -> str:
        """A VM's XML as libvirt on its host has it."""
        vm = self.ledger.vm(name)
        return self.host(vm.host).domains.xml(vm.name)

    def plan(
        self,
        desired: Sequence[VmSpec],
        rolling: RollingVms = NOT_ROLLING,
        before: ChangesBefore = NOTHING_BEFORE,
    ) -> Plan:
        """Probe, then say what apply would do, or raise what it would: the images are looked at.
        ``before`` is done first.
        """
        protected_desktops.refuse_names(self, [each.name for each in desired])
        planned, view = vm_apply.plan(self, desired, rolling, before)
        records = {host.name: host for host in view.hosts}
        check_planned(planned, records, self.hosts, self.lanes)
        return planned

    def explain(
        self, desired: Sequence[VmSpec], names: Collection[str] = ()
    ) -> tuple[Explanation, ...]:
        """The explanations of these VMs (or of ``names``) as ``apply`` would give them, by the last
        probe.
        """
        protected_desktops.refuse_names(self, [each.name for each in desired])
        return explain_waiting.explain(self, desired, names)

    def apply(
        self,
        desired: Sequence[VmSpec],
        *,
        partial: bool = False,
        restart: bool = False,
        with_users: bool = False,
        rolling: RollingVms = NOT_ROLLING,
        pruning: Pruning = NOTHING_PRUNED,
        show: Callable[[Plan], None] = lambda _: None,
    ) -> tuple[Plan, Outcome]:
        """Plan, reserve all or nothing, execute; what is ``rolling`` in waves, after the deletion
        of what is pruned. NoPlacement or Conflict change nothing, nor does UsersAtWork unless
        ``with_users``. ``show`` hears the plan before it is carried out.
        """
        protected_desktops.refuse_names(self, [each.name for each in desired])
        protected_desktops.refuse_desktops(self, pruning.names)
        return vm_apply.apply(
            self,
            desired,
            partial=partial,
            restart=restart,
            with_users=with_users,
            rolling=rolling,
            pruning=pruning,
            show=show,
        )

    def reserve_wave(self, operation: str) -> tuple[TaskRecord, ...]:
        """Reserve the next wave of a rolling change; RollStopped where it may not begin."""
        return rolling_change.reserve_wave(self, operation)

    def reserve_alternates(
        self, operation: str, specs: Mapping[str, VmSpec] = NOTHING
    ) -> tuple[TaskRecord, ...]:
        """Plan VMs of an open operation that were refused at other places, and reserve these."""
        return vm_alternates.reserve_alternates(self, operation, specs)

    def delete(self, names: Sequence[str], *, keep_disks: bool, force: bool) -> Outcome:
        """Delete VMs. A running one needs ``force``; an interrupted deletion is resumed. Conflict
        for a pool's desktop.
        """
        protected_desktops.refuse_desktops(self, names)
        return vm_deletion.delete(self, names, keep_disks=keep_disks, force=force)

    def stop_vms(
        self, names: Sequence[str], *, force: bool, timeout_s: float, with_users: bool = False
    ) -> Outcome:
        """Stop VMs: ask the guest, or with ``force`` pull the plug. UsersAtWork where that would
        cut a user off, unless ``with_users``.
        """
        if not with_users:
            self._refuse_users("stop", names)
        return vm_power.power(
            self, names, "stop", force=force, timeout_s=timeout_s, tells_users=with_users
        )

    def reboot(self, names: Sequence[str], *, force: bool, with_users: bool = False) -> Outcome:
        """Reboot VMs; UsersAtWork as :meth:`stop_vms`."""
        if not with_users:
            self._refuse_users("reboot", names)
        return vm_power.power(self, names, "reboot", force=force, tells_users=with_users)

    def _refuse_users(self, verb: str, names: Sequence[str]) -> None:
        again = f"vgpumgr vm {verb} {' '.join(names)} --with-users"
        users_at_work.refuse_users(self, names, next=f"{again}, or wait until they have logged off")

    def _refuse_logged_in(self, name: str, again: str) -> None:
        """UsersAtWork where the agent of a VM's guest says that users are logged in."""
        vms = [vm for vm in self.ledger.vms() if vm.name == name]
        wait = "or wait until they have logged off"
        users_at_work.refuse_cut_off(self, vms, next=f"{again}, {wait}")

    def shelve(self, names: Sequence[str], stop: StopManner) -> Outcome:
        """Stop VMs and give back what they hold; their disks are kept. Conflict for a desktop."""
        protected_desktops.refuse_desktops(self, names)
        return vm_shelving.shelve(self, names, stop)

    def rename(
        self,
        name: str,
        new_name: str,
        *,
        stop: StopManner | None = None,
        with_users: bool = False,
    ) -> Outcome:
        """Give a VM another name: see :func:`vm_rename.rename`. Conflict for a desktop, and for a
        name as a pool gives its desktops; UsersAtWork as :meth:`stop_vms`.
        """
        protected_desktops.refuse_desktops(self, [name])
        protected_desktops.refuse_names(self, [new_name])
        if stop is not None and not with_users:
            again = f"vgpumgr vm rename {name} {new_name} --restart --with-users"
            self._refuse_logged_in(name, again)
        return vm_rename.rename(self, name, new_name, stop)

    def take_snapshot(
        self, name: str, snapshot: str, *, freeze: bool = False, memory: bool = False
    ) -> Outcome:
        """Keep what a VM's disks hold now: see :func:`vm_snapshots.create`. Conflict for a
        desktop, which its pool makes from an image, and for its ``memory``.
        """
        protected_desktops.refuse_desktops(self, [name])
        if memory:
            vm_snapshots.refuse_memory(self.ledger.vm(name))
        return vm_snapshots.create(self, name, snapshot, freeze=freeze)

    def revert(
        self,
        name: str,
        snapshot: str,
        *,
        stop: StopManner | None = None,
        with_users: bool = False,
    ) -> Outcome:
        """Bring a VM's disks back to a snapshot; with ``stop`` a running one is stopped so, and
        started again. UsersAtWork as :meth:`stop_vms`.
        """
        protected_desktops.refuse_desktops(self, [name])
        if stop is not None and not with_users:
            again = f"vgpumgr vm snapshot revert {name} {snapshot} --restart --with-users"
            self._refuse_logged_in(name, again)
        return vm_snapshots.revert(self, name, snapshot, stop)

    def delete_snapshot(self, name: str, snapshot: str) -> Outcome:
        """Delete a snapshot of a VM; its disks, and all other snapshots, stay as they are."""
        protected_desktops.refuse_desktops(self, [name])
        return vm_snapshots.delete(self, name, snapshot)

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
        how = vm_migrate.MoveManner(cold=cold, timeout_s=timeout_s, with_users=with_users)
        return vm_migrate.plan(self, name, to, how)[0]

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
        how = vm_migrate.MoveManner(cold=cold, timeout_s=timeout_s, with_users=with_users)
        return vm_migrate.migrate(self, name, to, how)

    # backups
    delete_backup = backup_removal.delete
    verify_backup = backup_verification.verify
    search_backups = backup_search.search
    restored_spec = backup_restore.restored_spec

    def back_up(
        self, name: str, target: str = "", *, freeze: bool | None = None
    ) -> tuple[Outcome, VmBackup]:
        """Back up a VM: see :func:`vm_backups.create`. Conflict for a desktop, which its pool makes
        from an image.
        """
        protected_desktops.refuse_backup(self, name)
        return vm_backups.create(self, name, target, freeze=freeze)

    # pools, bookings, images
    pool_plan = pool_apply.plan
    put_pool = pool_apply.put
    pool_outlook = pool_cycle.forecast
    scale_pool = pool_changes.scale
    drain_pool = pool_changes.drain
    delete_pool = pool_changes.leave
    push_image = pool_changes.push_image
    assign_desktop = desktop_assignment.assign
    release_desktop = desktop_assignment.release
    booking_pool = bookings.serving
    book = bookings.book
    import_image = image_import.import_
    import_known_image = image_import.import_known
    retire_image = image_retirement.retire

    # layouts
    layout_export = layout_run.export
    layout_apply = layout_run.apply
    adopt_layout = adoptions.adopt_layout
    gpu_reset_plan = gpu_reset.plan
    reset_gpu = gpu_reset.reset

    def layout_plan(self, specs: Sequence[LayoutSpec] | None) -> LayoutPlan:
        """Probe, then plan these layouts (None: the last applied ones); nothing is changed."""
        return layout_run.plan(self, specs)[0]

    # hosts
    enrol = host_membership.enrol
    remove_host = host_removal.remove
    forget_host = host_removal.forget
    drain_plan = host_drain.plan
    drain = host_drain.drain
    undrain = host_drain.end
    balance_plan = host_balance.plan
    balance = host_balance.run
    enter_maintenance = host_maintenance.enter
    leave_maintenance = host_maintenance.leave
    fence = host_marks.fence
    evacuate = host_evacuation.evacuate

    def staying(self, host: str) -> tuple[str, ...]:
        """The things of the fleet that a host keeps when it is removed, by the last probe."""
        return host_removal.staying(self.view(), self.ledger.host(host).name)

    def evacuation_plan(self, host: str, *, will_not_boot: bool = False) -> EvacuationPlan:
        """Probe the other hosts, then plan the evacuation of a lost host; nothing is changed."""
        return host_evacuation.plan(self, host, will_not_boot=will_not_boot)[0]

    # fleet and ledger kept together
    drift = drift_survey.survey
    adopt = adoptions.adopt
    heal_plan = heal_run.plan
    heal = heal_run.apply
    lift = heal_run.lift
    defrag_plan = defrag_apply.plan
    defrag = defrag_apply.apply
    cancel_logoff_move = logoff_moves.cancel
    end_moves = defrag_apply.resume
    thaw_plan = ledger_thaw.plan
    thaw = ledger_thaw.thaw
    resume = operation_lifecycle.resume
    undo = operation_lifecycle.undo

    def adoptable(self, hosts: Sequence[str] = ()) -> AdoptionFindings:
        """Probe, and list foreign VMs: adoptable ones, and the others with their reasons."""
        return adoptions.find(self, hosts)[0]
