"""Backups over simulated hosts: what is forgotten, and VMs that come back next to another one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.backups import backup_cycle
from vgpumgr.engine.backups.backup_places import hosts_of
from vgpumgr.engine.backups.backup_restore import RestoreRequest
from vgpumgr.engine.drift.drift_survey import survey
from vgpumgr.engine.planning.changed_fields import changed_fields
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.engine.use_cases import Engine
from vgpumgr.engine.workers.thread_workers import SystemClock
from vgpumgr.model.errors import Conflict, HostRefused, NotFound
from vgpumgr.model.host import HostRecord
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_backup import BackupTarget, OwnBackups, RetentionRules, VmBackup
from vgpumgr.model.vm_devices import DiskSpec, NicSpec
from vgpumgr.spec import load

POOLS = {"pools": ("default", "backups")}
DISKS = (DiskSpec(size_bytes=1 << 20),)
UUID, MAC = "7d1c9b3e-4f2a-4c6d-9a10-000000000042", "52:54:00:00:00:2a"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4", **POOLS), host("T4", name="h2", **POOLS))
    made.engine.refresh()
    made.ledger.set_backup_target(BackupTarget(name="vault", pool="backups"))
    yield made
    made.close()


def taken(world: SimWorld, name: str = "a") -> VmBackup:
    outcome, made = world.engine.back_up(name, "vault")
    outcome.raise_for_failure()
    return next(each for each in world.ledger.vm_backups() if each.id == made.id)


@dataclass(frozen=True)
class Later(SystemClock):
    """So many seconds after now."""

    seconds: float

    def now(self) -> float:
        return super().now() + self.seconds


def later(world: SimWorld, seconds: float) -> Engine:
    return replace(world.engine, clock=Later(seconds))


def read(document: Mapping[str, Any]) -> Sequence[VmSpec]:
    return load(json.dumps(document), "backup").vms


def machine(world: SimWorld, name: str) -> tuple[str, list[str]]:
    """UUID and MAC addresses, as its host has them."""
    domains = world.hosts.open(world.ledger.host(world.ledger.vm(name).host)).domains
    found = domains.look(name)
    assert found is not None
    return found.uuid, re.findall(r'<mac address="(.*?)"', domains.xml(name))


def restore(world: SimWorld, backup: VmBackup, name: str = "") -> None:
    spec = world.engine.restored_spec(backup, RestoreRequest(name=name), read)
    world.engine.apply([spec])[1].raise_for_failure()


def test_the_host_that_made_it_is_asked_though_it_shows_the_pool_no_more(world: SimWorld) -> None:
    world.apply(vm("a", disks=DISKS))
    made = taken(world)
    records = [
        replace(each, facts=None) if each.name == made.host else each
        for each in world.ledger.hosts()
    ]
    assert next(hosts_of(records, made)) == made.host
    gone = [each for each in records if each.name != made.host]
    assert made.host not in set(hosts_of([*gone, HostRecord(name="h9", address="sim://h9")], made))


def test_retention_forgets_nothing_that_it_does_not_see(world: SimWorld) -> None:
    """A target that is not mounted looks as if all of it were deleted."""
    world.apply(vm("a", disks=DISKS))
    keep = RetentionRules(last=1)
    world.ledger.set_backup_target(
        BackupTarget(name="vault", pool="backups", vms=("a",), every_s=0.001, keep=keep)
    )
    serve = replace(world.engine, unasked=True)
    assert not backup_cycle.step(serve, lambda _: True).failed
    [made] = world.ledger.vm_backups()
    storage = world.hosts.open(world.ledger.host(made.host)).storage
    for name in (made.manifest, made.volume("vda")):
        storage.delete("backups", name)
    failed = backup_cycle.step(serve, lambda _: True).failed
    assert [str(each) for each in failed.values() if "is on its target" in each.message]
    assert made.id in {each.id for each in world.ledger.vm_backups()}
    world.engine.delete_backup(made).raise_for_failure()
    assert made.id not in {each.id for each in world.ledger.vm_backups()}


def test_a_backup_of_a_vm_that_was_renamed_makes_no_second_machine_of_its_identity(
    world: SimWorld,
) -> None:
    nic = NicSpec(network="default", mac=MAC)
    world.apply(vm("a", disks=DISKS, uuid=UUID, nics=(nic,)))
    made = taken(world)
    world.engine.rename("a", "b", stop=StopManner(force=True)).raise_for_failure()
    with pytest.raises(Conflict, match="cannot have the"):
        restore(world, made)
    restore(world, made, "c")
    other = world.ledger.vm("c")
    assert other.domain_uuid != UUID and other.spec.nics[0].mac != MAC


def test_a_vm_that_was_lost_comes_back_as_the_machine_that_its_guest_knows(
    world: SimWorld,
) -> None:
    """A guest that knows its NIC by its MAC address has no network with another one."""
    spec = vm("a", disks=DISKS, nics=(NicSpec(network="default"),))
    world.apply(spec)
    made, before = taken(world), machine(world, "a")
    world.delete("a")
    restore(world, made)
    assert machine(world, "a") == before
    plan, _ = world.engine.apply([spec])
    assert plan.actions == ()
    world.engine.rename("a", "b", stop=StopManner(force=True)).raise_for_failure()
    restore(world, taken(world, "b"), "c")
    for each in (before[0], *before[1]):
        assert each not in str(machine(world, "c"))


def test_backups_of_a_renamed_vm_are_its_backups_still(world: SimWorld) -> None:
    world.apply(vm("a", disks=DISKS))
    taken(world)
    world.engine.rename("a", "b", stop=StopManner(force=True)).raise_for_failure()
    [made] = world.ledger.vm_backups()
    assert world.engine.verify_backup(made).fault == ""
    restore(world, made, "c")
    world.delete("b")
    restore(world, made)
    assert world.ledger.vm("a").volumes
    world.engine.delete_backup(made).raise_for_failure()
    storage = world.hosts.open(world.ledger.host(made.host)).storage
    assert storage.volumes("backups") == ()


OWN = {
    **{"apiVersion": "vgpumgr/v1", "kind": "VM", "firmware": "bios", "memory": "512MiB"},
    "disks": [{"size": "1MiB"}],
}


def test_a_vm_says_itself_how_it_is_backed_up(world: SimWorld) -> None:
    """Patterns of targets are not asked for it, and its own rules say what is kept."""
    every = BackupTarget(name="every", pool="backups", vms=("*",), every_s=60.0)
    world.ledger.set_backup_target(every)
    own = {"target": "vault", "every": "1h", "last": 2}
    specs = [*read({**OWN, "name": "a", "backup": own}), *read({**OWN, "name": "b"})]
    world.apply(*specs)
    assert not backup_cycle.step(later(world, 0.0), lambda _: True).failed
    made = {(each.vm, each.target) for each in world.ledger.vm_backups()}
    assert made == {("a", "vault"), ("b", "every")}
    for hour in range(1, 4):
        backup_cycle.step(later(world, hour * 3600.0), lambda _: True)
    mine = [each for each in world.ledger.vm_backups() if each.vm == "a"]
    assert [each.target for each in mine] == ["vault"] * 2
    changed = read({**OWN, "name": "a", "backup": {**own, "every": "1d"}})
    said = changed_fields(world.ledger.vm("a").spec, changed[0])
    assert said == ("backup: to vault every 1 h (last 2) → to vault every 1 d (last 2)",)
    world.apply(*changed)
    assert world.ledger.vm("a").spec.backup == changed[0].backup
    restore(world, mine[0], "c")
    assert world.ledger.vm("c").spec.backup is None


def test_a_vm_whose_target_is_not_there_is_told_of(world: SimWorld) -> None:
    world.apply(*read({**OWN, "name": "a", "backup": {"target": "vualt", "every": "1d"}}))
    assert backup_cycle.works(world.engine)
    failed = backup_cycle.step(world.engine, lambda _: True).failed
    assert "there is no backup target vualt" in failed["vualt/a"].message
    assert "there are: vault" in failed["vualt/a"].why
    assert world.ledger.vm_backups() == ()


def tpm(world: SimWorld, name: str) -> object:
    """What its TPM holds on its host."""
    record = world.ledger.vm(name)
    helper = world.hosts.open(world.ledger.host(record.host)).helper
    return helper.call("tpm_state_read", {"uuid": record.domain_uuid})["files"]


@pytest.mark.parametrize("name", ["", "c"])
@pytest.mark.parametrize("off", [False, True])
def test_what_its_tpm_held_comes_back_with_a_vm(world: SimWorld, name: str, off: bool) -> None:
    world.apply(vm("a", disks=DISKS, tpm=True))
    if off:
        world.engine.stop_vms(["a"], force=True, timeout_s=5.0).raise_for_failure()
    held = tpm(world, "a")
    made = taken(world)
    assert held and world.engine.verify_backup(made).fault == ""
    if not name:
        world.delete("a")
    restore(world, made, name)
    assert tpm(world, name or "a") == held
    assert survey(world.engine).drifts == ()
    world.delete(name or "a")
    storage = world.hosts.open(world.ledger.host(made.host)).storage
    storage.upload("backups", made.tpm_volume, b"{}")
    assert made.tpm_volume in world.engine.verify_backup(made).fault
    with pytest.raises(HostRefused, match="is damaged in its backup"):
        restore(world, made, "d")
    with pytest.raises(NotFound):
        world.ledger.vm("d")
    world.engine.delete_backup(made).raise_for_failure()
    assert storage.volumes("backups") == ()


def test_a_plan_names_a_target_that_is_not_there(world: SimWorld) -> None:
    def notes(target: str) -> tuple[str, ...]:
        own = OwnBackups(target=target, every_s=3600.0)
        return world.engine.plan([vm("a", disks=DISKS, backup=own)]).notes

    assert notes("vault") == ()
    [told] = notes("cellar")
    assert "vgpumgr backup target create cellar --pool POOL" in told
