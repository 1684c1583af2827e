"""Commands as the command line carries them out, for scenarios to run and kill."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.faults.scenario import Command, layout_spec
from vgpumgr.app import enrolment
from vgpumgr.app.composition import App
from vgpumgr.engine.backups.backup_restore import RestoreRequest
from vgpumgr.engine.controller.controller import Controller
from vgpumgr.engine.controller.cycle_schedule import ProbePauses
from vgpumgr.engine.controller.cycle_threads import CycleThread, SerialCycleRunner
from vgpumgr.engine.controller.host_cycle import CycleEnd
from vgpumgr.engine.controller.power_task import POWER_THREAD, PowerPolicy, PowerTask
from vgpumgr.engine.defrag.defrag_plan import DefragRequest
from vgpumgr.engine.heal import orphans
from vgpumgr.engine.heal.remedy import DriftSelection
from vgpumgr.engine.hosts.host_balance import BalanceRequest
from vgpumgr.engine.hosts.host_drain import DrainRequest
from vgpumgr.engine.hosts.host_shares import HostShares
from vgpumgr.engine.images.image_copies import ImageImport
from vgpumgr.engine.migration import moves_within_host
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.engine.vms.vm_pruning import Pruning
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.health.health_policy import HealthMode
from vgpumgr.model.defrag import EmptyGpus
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.host import Fence, HostRecord
from vgpumgr.model.host_sample import FleetSample
from vgpumgr.model.layout import GpuLayout
from vgpumgr.model.operation import OF_SNAPSHOTS, OperationState
from vgpumgr.model.quota import Quota
from vgpumgr.model.rolling import Rolling
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_backup import BackupState
from vgpumgr.spec import load
from vgpumgr.telemetry.figure_sampler import FigureSampler

# A disk of one sector.
_IMAGE = Path(__file__).with_name("image.raw")
# Who had its turn is not due again by itself: the same run passes the same points at any speed.
_NEVER_S = 3000.0


def apply(*specs: VmSpec, restart: bool = False) -> Command:
    """``vgpumgr apply``."""

    def command(app: App) -> None:
        app.engine.apply(specs, restart=restart)[1].raise_for_failure()

    return command


def roll(*specs: VmSpec) -> Command:
    """``vgpumgr apply --restart --at-once 1``."""
    how = {spec.name: Rolling(group="", at_once=1, within_s=0.0) for spec in specs}

    def command(app: App) -> None:
        app.engine.apply(specs, restart=True, rolling=how)[1].raise_for_failure()

    return command


def prune(*specs: VmSpec, gone: tuple[str, ...]) -> Command:
    """``vgpumgr apply --restart --prune -y``."""

    def command(app: App) -> None:
        app.engine.apply(specs, restart=True, pruning=Pruning(gone))[1].raise_for_failure()

    return command


def delete(*names: str, keep_disks: bool = False) -> Command:
    """``vgpumgr vm delete --force``."""

    def command(app: App) -> None:
        app.engine.delete(names, keep_disks=keep_disks, force=True).raise_for_failure()

    return command


def start(*names: str) -> Command:
    """``vgpumgr vm start``."""
    return lambda app: app.engine.start(names).raise_for_failure()


def stop(*names: str, force: bool = False) -> Command:
    """``vgpumgr vm stop``."""
    return lambda app: app.engine.stop_vms(names, force=force, timeout_s=5.0).raise_for_failure()


def shelve(*names: str) -> Command:
    """``vgpumgr vm stop --release-gpu``."""
    how = StopManner(force=True, timeout_s=5.0)
    return lambda app: app.engine.shelve(names, how).raise_for_failure()


def cancel(*names: str) -> Command:
    """``vgpumgr queue cancel``."""
    return lambda app: app.writable_ledger.cancel_queued(names)


def set_quota(quota: Quota) -> Command:
    """``vgpumgr quota set``."""
    return lambda app: app.writable_ledger.set_quota(quota)


def delete_quota(tenant: str) -> Command:
    """``vgpumgr quota delete``."""
    return lambda app: app.writable_ledger.delete_quota(tenant)


def reboot(*names: str, force: bool = False) -> Command:
    """``vgpumgr vm reboot``."""
    return lambda app: app.engine.reboot(names, force=force).raise_for_failure()


def migrate(name: str, to: str, *, cold: bool = False) -> Command:
    """``vgpumgr vm migrate``."""
    return lambda app: app.engine.migrate(name, to, cold=cold).raise_for_failure()


def balance(vms: int) -> Command:
    """``vgpumgr balance run -y``: a host with all of these VMs is hot, with one less it is not."""

    def command(app: App) -> None:
        app.engine.end_moves().raise_for_failure()
        app.engine.refresh()
        shares = HostShares(app.engine.view(), {}).now.values()
        hot = sum(each.heat for each in shares) * (vms - 0.5) / vms
        planned = app.engine.balance_plan(BalanceRequest(hot=hot))
        app.engine.balance(planned).outcome.raise_for_failure()

    return command


def reseat(name: str) -> Command:
    """A move within its host, once."""

    def command(app: App) -> None:
        operation_lifecycle.finish_leftovers(
            app.engine, {}, frozenset()
        )  # where its end alone was lost
        moved = (each for each in app.ledger.operations() if each.kind == "vm move")
        if not any(each.state is OperationState.DONE for each in moved):
            moves_within_host.move_within_host(app.engine, name).raise_for_failure()

    return command


def back_up(name: str, *, freeze: bool | None = None, there: int = 0) -> Command:
    """``vgpumgr backup create``, where there are no more than these yet."""

    def command(app: App) -> None:
        known = [each for each in app.ledger.vm_backups() if each.state is BackupState.THERE]
        if len(known) <= there:
            app.engine.back_up(name, freeze=freeze)[0].raise_for_failure()

    return command


def restore(name: str) -> Command:
    """``vgpumgr backup restore --name``, of the one backup."""

    def command(app: App) -> None:
        [backup] = app.ledger.vm_backups()
        spec = app.engine.restored_spec(backup, RestoreRequest(name=name), _read)
        app.engine.apply([spec])[1].raise_for_failure()

    return command


def _read(document: Mapping[str, Any]) -> Sequence[VmSpec]:
    return load(json.dumps(document), "backup").vms


def delete_backup(name: str) -> Command:
    """``vgpumgr backup delete`` of all backups of a VM."""

    def command(app: App) -> None:
        for each in app.ledger.vm_backups():
            if each.vm == name:
                app.engine.delete_backup(each).raise_for_failure()

    return command


def verify_backup(name: str) -> Command:
    """``vgpumgr backup verify``."""

    def command(app: App) -> None:
        for each in app.ledger.vm_backups():
            if each.vm == name:
                app.engine.verify_backup(each)

    return command


def search_backups(app: App) -> None:
    """``vgpumgr backup target search``."""
    app.engine.search_backups("vault")


def take_snapshot(name: str, snapshot: str, *, freeze: bool = False) -> Command:
    """``vgpumgr vm snapshot create``, where there is none yet."""

    def command(app: App) -> None:
        _finish(app, name)
        if app.ledger.vm(name).snapshots.find(snapshot) is None:
            app.engine.take_snapshot(name, snapshot, freeze=freeze).raise_for_failure()

    return command


def revert(name: str, snapshot: str, *, restart: bool = False) -> Command:
    """``vgpumgr vm snapshot revert``, once."""
    stop = StopManner(force=True, timeout_s=5.0) if restart else None

    def command(app: App) -> None:
        _finish(app, name)
        reverted = (each for each in app.ledger.operations() if each.kind == "vm snapshot revert")
        if not any(each.state is OperationState.DONE for each in reverted):
            app.engine.revert(name, snapshot, stop=stop).raise_for_failure()

    return command


def rename(name: str, new_name: str, *, restart: bool = False) -> Command:
    """``vgpumgr vm rename``, unless it has that name already."""
    stop = StopManner(force=True, timeout_s=5.0) if restart else None

    def command(app: App) -> None:
        if all(vm.name != new_name for vm in app.ledger.vms()):
            app.engine.rename(name, new_name, stop=stop).raise_for_failure()

    return command


def delete_snapshot(name: str, snapshot: str) -> Command:
    """``vgpumgr vm snapshot delete``, where it is there still."""

    def command(app: App) -> None:
        _finish(app, name)
        if app.ledger.vm(name).snapshots.find(snapshot):
            app.engine.delete_snapshot(name, snapshot).raise_for_failure()

    return command


def _finish(app: App, name: str) -> None:
    specs = {name: app.ledger.vm(name).spec}
    operation_lifecycle.finish_leftovers(app.engine, specs, OF_SNAPSHOTS)


def cut(layout: GpuLayout, *hosts: str) -> Command:
    """``vgpumgr layout apply``."""
    spec = layout_spec(layout, *hosts)
    return lambda app: app.engine.layout_apply([spec])[1].raise_for_failure()


def add_host(name: str) -> Command:
    """``vgpumgr host add``."""
    record = HostRecord(
        name=name, address=f"sim://{name}", migration=MigrationAddress(address=name)
    )

    def command(app: App) -> None:
        enrolment.enrol(app, record, fingerprint="", install=True, accept=lambda _name, _key: None)

    return command


def remove_host(name: str, *, reach: bool = True) -> Command:
    """``vgpumgr host remove``."""

    def command(app: App) -> None:
        enrolment.remove(app, name, reach=reach)

    return command


def drain(name: str, *, cold: bool = False) -> Command:
    """``vgpumgr host drain``."""
    return lambda app: app.engine.drain(
        DrainRequest(host=name, cold=cold)
    ).outcome.raise_for_failure()


def defrag(empty: int) -> Command:
    """``vgpumgr defrag apply --free``."""

    def command(app: App) -> None:
        app.engine.end_moves().raise_for_failure()
        planned, _ = app.engine.defrag_plan(DefragRequest(goal=EmptyGpus(gpus=empty)))
        done = app.engine.defrag(planned)
        done.outcome.raise_for_failure()
        if done.error is not None:
            raise done.error

    return command


def fence(name: str, wanted: Fence) -> Command:
    """``vgpumgr host fence``."""
    return lambda app: app.engine.fence(name, wanted).raise_for_failure()


def evacuate(name: str) -> Command:
    """``vgpumgr host evacuate``."""
    return lambda app: app.engine.evacuate(name)[1].raise_for_failure()


def undrain(name: str) -> Command:
    """``vgpumgr host undrain``."""
    return lambda app: app.engine.undrain(name)


def enter_maintenance(name: str) -> Command:
    """``vgpumgr host maintenance``."""
    return lambda app: app.engine.enter_maintenance(name)


def leave_maintenance(name: str) -> Command:
    """``vgpumgr host maintenance --off``."""

    def command(app: App) -> None:
        app.engine.leave_maintenance(name)

    return command


def import_image(*hosts: str) -> Command:
    """``vgpumgr image import``."""
    request = ImageImport(path=str(_IMAGE), name="cad", format="raw", hosts=hosts)
    return lambda app: app.engine.import_image(request).outcome.raise_for_failure()


def retire_image(reference: str) -> Command:
    """``vgpumgr image retire --delete-copies``."""

    def command(app: App) -> None:
        done = app.engine.retire_image(reference, delete_copies=True)
        done.outcome.raise_for_failure()

    return command


def heal(*kinds: DriftKind) -> Command:
    """``vgpumgr heal``, whose two looks at what is to be freed follow closely here."""

    def command(app: App) -> None:
        orphans.SECOND_LOOK_S = 0.05
        app.engine.heal(DriftSelection(kinds=frozenset(kinds))).outcome.raise_for_failure()

    return command


def adopt(host: str, *names: str) -> Command:
    """``vgpumgr adopt``."""
    return lambda app: app.engine.adopt(host, names).raise_for_failure()


def adopt_layout(host: str) -> Command:
    """``vgpumgr adopt --layout``."""
    return lambda app: app.engine.adopt_layout(host)[1].raise_for_failure()


def lift(app: App) -> None:
    """``vgpumgr heal --lift`` for what is quarantined."""
    for gpu in app.ledger.gpus():
        if gpu.state is GpuState.QUARANTINED:
            app.engine.lift(gpu.id)


def reset_gpus(app: App) -> None:
    """``vgpumgr gpu reset`` for each GPU that takes no VM."""
    for gpu in app.ledger.gpus():
        if gpu.state is GpuState.QUARANTINED or not gpu.health.state.takes_vms:
            app.engine.reset_gpu(gpu.id).raise_for_failure()


def watch_power(app: App) -> None:
    """What `serve` does about power, as often as it takes to lift a cap step by step."""
    sampler = FigureSampler(app.engine.hosts, SerialWorkers(), app.engine.clock.now)
    at = iter(range(1, 100))

    def figures() -> FleetSample:
        found = sampler.read(app.ledger.hosts())
        return FleetSample(at=float(next(at)), interval_s=15.0, hosts=tuple(found.values()))

    policy = PowerPolicy(mode=HealthMode.ACT)
    task = PowerTask(app.engine, figures, policy, lambda _: None)
    for _ in range(8):
        task.take(CycleThread(POWER_THREAD, app.engine.clock))
        app.engine.refresh()


def undo(app: App) -> None:
    """``vgpumgr operation undo`` for what is open."""
    for operation in app.ledger.operations(open_only=True):
        app.engine.undo(operation.id)


def thaw(*forget: str) -> Command:
    """``vgpumgr store thaw --apply``."""

    def command(app: App) -> None:
        app.engine.thaw(forget=forget)

    return command


def serve(app: App) -> None:
    """``vgpumgr serve``: a turn of each host that is due, then another of each."""
    turns = SerialCycleRunner[CycleEnd](app.engine.clock)
    controller = Controller(app.engine, turns, ProbePauses(_NEVER_S), emit=lambda _event: None)
    for _ in range(2):
        controller.round()
    controller.once()
