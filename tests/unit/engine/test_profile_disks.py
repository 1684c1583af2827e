"""Profile disks: a user's own disk is attached where the user is, and never at two desktops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeClock
from tests.poolsim import NEW, OLD, PoolSim, spec
from tests.simworld import SimWorld, host
from vgpumgr.domainxml.plugged_disk_xml import disk_of, disk_text
from vgpumgr.engine.pools import pool_cycle
from vgpumgr.engine.pools.profile_disks import LET_GO_S, ProfileDiskNotice, ProfileDisks
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.model.pool import PoolSpec
from vgpumgr.model.profile_disk import ProfileDiskSpec
from vgpumgr.model.vm import VmRecord

GIB = 1 << 30
PROFILE = ProfileDiskSpec(size_bytes=GIB, pool="nas")


class Desktops(PoolSim):
    """A pool on two hosts that share the storage pool ``nas``, unless ``shared`` says otherwise."""

    def __init__(self, folder: Path, pool: PoolSpec, *, shared: bool = True) -> None:
        images = (f"{OLD}.qcow2", f"{NEW}.qcow2")
        hosts = [
            replace(
                host("T4", name=name, images=images),
                pools=("default", "nas"),
                shared_pools=("nas",) if shared else (),
            )
            for name in ("h1", "h2")
        ]
        self.world = SimWorld(folder, *hosts)
        self.clock = FakeClock()
        self.world.engine = replace(self.world.engine, clock=self.clock)
        self.ledger, self.engine = self.world.ledger, self.world.engine
        self.engine.refresh()
        self.engine.put_pool(pool)
        self.disks = ProfileDisks(self.engine)

    def later(self) -> list[ProfileDiskNotice]:
        """A turn of the disks, then one of the pool."""
        self.clock.wait(61.0)
        found = list(self.disks.step())
        self.turn()
        return found

    def attached(self) -> dict[str, str]:
        """The volume of the profile disk of each desktop that has one."""
        found = {}
        for vm in self.ledger.vms():
            if path := self.path(vm):
                found[vm.name] = path.rpartition("/")[2]
        return found

    def path(self, vm: VmRecord) -> str:
        live = self.engine.host(vm.host).domains.live_xml(vm.name)
        text = disk_text(live, "vdz")
        return disk_of(text)[1] if text else ""


@pytest.fixture
def desktops(tmp_path: Path) -> Iterator[Desktops]:
    made = Desktops(tmp_path, spec(spare=2, profile_disk=PROFILE))
    made.turn()
    yield made
    made.world.close()


def test_a_user_has_the_disk_where_the_user_is_and_it_outlives_the_desktop(
    desktops: Desktops,
) -> None:
    assert desktops.later() == [], "a desktop of no user has no disk"
    first = desktops.assign("ada").desktop
    [told] = desktops.later()
    assert (told.user, told.vm, told.why) == ("ada", first, "")
    volume = desktops.attached()[first]
    before = {vm.name: vm.id for vm in desktops.ledger.vms()}[first]
    desktops.engine.release_desktop("cad", "ada")
    assert "is detached" in desktops.later()[0].text
    assert desktops.attached() == {}
    desktops.later()
    assert before not in {vm.id for vm in desktops.ledger.vms()}, "it was recreated"
    second = desktops.assign("ada").desktop
    desktops.later()
    assert desktops.attached() == {second: volume}


def test_a_desktop_with_the_disk_of_a_user_who_has_gone_is_recreated_without_it(
    desktops: Desktops,
) -> None:
    name = desktops.assign("ada").desktop
    desktops.later()
    before = desktops.ledger.vm(name).id
    desktops.engine.release_desktop("cad", "ada")

    def turn() -> None:
        pool_cycle.step(desktops.engine, held=desktops.disks.held_desktops)

    turn()
    assert desktops.ledger.vm(name).id == before
    assert name in desktops.attached()
    list(desktops.disks.step())
    turn()
    assert before not in {vm.id for vm in desktops.ledger.vms()}


def test_a_guest_that_keeps_a_disk_holds_its_desktop_up_for_a_while_only(
    desktops: Desktops,
) -> None:
    name = desktops.assign("ada").desktop
    desktops.later()
    before = desktops.ledger.vm(name).id
    desktops.engine.release_desktop("cad", "ada")
    assert len(desktops.disks.held_desktops()) == 1
    desktops.clock.wait(LET_GO_S + 1)
    pool_cycle.step(desktops.engine, held=desktops.disks.held_desktops)
    assert before not in {vm.id for vm in desktops.ledger.vms()}


def test_two_users_have_two_disks(desktops: Desktops) -> None:
    names = {desktops.assign(user).desktop for user in ("ada", "bob")}
    desktops.later()
    found = desktops.attached()
    assert set(found) == names
    assert len(set(found.values())) == 2


def test_a_desktop_that_is_restarted_gets_it_again(desktops: Desktops) -> None:
    name = desktops.assign("ada").desktop
    desktops.later()
    vm = desktops.ledger.vm(name)
    domains = desktops.engine.host(vm.host).domains
    domains.destroy(vm.domain_uuid)
    domains.start(vm.domain_uuid)
    assert desktops.attached() == {}
    desktops.later()
    assert set(desktops.attached()) == {name}


def test_it_is_attached_nowhere_else_while_its_host_does_not_answer(desktops: Desktops) -> None:
    name = desktops.assign("ada").desktop
    desktops.later()
    [disk] = desktops.ledger.profile_disks()
    holder = desktops.ledger.vm(name)
    desktops.world.sim.inject(holder.host, ["refuse", "domains.look", "EIO", "9"])
    desktops.engine.release_desktop("cad", "ada")
    [told] = [each for each in desktops.disks.step() if each.user == "ada"]
    assert told.why and "stays where it is" in told.text
    assert desktops.ledger.profile_disks()[0].vm_id == disk.vm_id == holder.id


def test_the_ledger_gives_a_disk_to_one_vm_only(desktops: Desktops) -> None:
    desktops.assign("ada")
    desktops.later()
    [disk] = desktops.ledger.profile_disks()
    stale = replace(disk, generation=disk.generation - 1, vm_id="another")
    with pytest.raises(StaleGeneration):
        desktops.ledger.put_profile_disk(stale)
    with pytest.raises(StaleGeneration, match="bob"):
        desktops.ledger.put_profile_disk(replace(disk, user="bob", generation=0))


def test_a_volume_that_is_gone_is_not_made_again_empty(desktops: Desktops) -> None:
    name = desktops.assign("ada").desktop
    desktops.later()
    vm, [disk] = desktops.ledger.vm(name), desktops.ledger.profile_disks()
    host = desktops.engine.host(vm.host)
    host.domains.destroy(vm.domain_uuid)
    host.storage.delete(disk.storage_pool, disk.volume)
    host.domains.start(vm.domain_uuid)
    desktops.clock.wait(61.0)
    [told] = desktops.disks.step()
    assert "is not on" in told.why
    assert host.storage.look(disk.storage_pool, disk.volume) is None


def test_a_storage_pool_of_one_host_is_refused_with_the_reason(tmp_path: Path) -> None:
    made = Desktops(tmp_path, spec(spare=1, profile_disk=PROFILE), shared=False)
    made.turn()
    made.assign("ada")
    [told] = made.later()
    assert "cannot be had" in told.text and "of that host alone" in told.why
    [warned] = made.engine.put_pool(spec(spare=1, profile_disk=PROFILE)).warnings
    assert "desktops of h1, h2 have no profile disk" in warned
    assert made.ledger.profile_disks() == ()
    made.world.close()


@pytest.mark.parametrize("keep", [True, False])
def test_the_disks_stay_when_the_pool_goes_unless_its_file_says_otherwise(
    tmp_path: Path, keep: bool
) -> None:
    made = Desktops(tmp_path, spec(spare=1, profile_disk=replace(PROFILE, keep=keep)))
    made.turn()
    made.assign("ada")
    made.later()
    [disk] = made.ledger.profile_disks()
    made.engine.release_desktop("cad", "ada")
    made.later()
    made.engine.delete_pool("cad")
    for _ in range(3):
        made.later()
    assert made.ledger.pools() == ()
    storage = made.engine.host("h1").storage
    assert (storage.look("nas", disk.volume) is not None) is keep
    assert len(made.ledger.profile_disks()) == keep
    made.world.close()


def test_a_profile_disk_is_no_drift(desktops: Desktops) -> None:
    desktops.assign("ada")
    desktops.later()
    assert desktops.engine.drift().drifts == ()
