"""Adopting: what others made becomes ours as it is; what cannot is told why, and stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import host, vm
from tests.unit.engine.foreign import (
    A40,
    A100,
    FLEX,
    L40S,
    MDEV,
    T4,
    Hands,
    domain,
    hands,
    mdev_hostdev,
    pci_hostdev,
)
from vgpumgr.engine.adoption.candidate import AdoptionCandidate
from vgpumgr.engine.heal.remedy import DriftSelection
from vgpumgr.helper.dispatch import handle
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import Conflict, HostRefused, NotFound
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal
from vgpumgr.model.operation import TaskState
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.model.vm import Affinity

OTHER = MDEV.replace("1111-2222", "1111-3333")
MIG = GpuLayout(mig=True, vfs=VFS_MAX, instances=(InstanceGoal(profile="3g.40gb", start=0),))
VFS = GpuLayout(vfs=VFS_MAX)


def type_of(made: Hands, word: str) -> int:
    """The driver's number for a type that ends so, as its files list it."""
    vf = made.world.gpu().vfs[0].address
    text = made.root.read(f"/sys/bus/pci/devices/{vf}/nvidia/creatable_vgpu_types")
    line = next(each for each in text.splitlines() if each.strip().endswith(word))
    return int(line.split(":")[0])


Made = Callable[[Hands], str]
# How somebody gave a GPU to a domain, where, and what we call it.
WAYS: dict[str, tuple[SimHost, GpuLayout | None, Made, str]] = {
    "mdev on the GPU": (T4, None, lambda made: made.mdev("T4-4Q"), "T4-4Q"),
    "mdev on a VF": (A40, VFS, lambda made: made.mdev("A40-8Q"), "A40-8Q"),
    "vendor VF": (L40S, VFS, lambda made: made.vgpu(type_of(made, "L40S-8Q")), "L40S-8Q"),
    "mixed sizes": (
        L40S,
        replace(VFS, mixed_size=True),
        lambda made: made.vgpu(type_of(made, "L40S-8Q"), vf=3),
        "L40S-8Q",
    ),
    "in a GPU instance": (A100, MIG, lambda made: made.vgpu(type_of(made, "-3-40C")), "3g.40gb"),
    "in a GPU instance outside the catalogue": (
        host("UNLISTED-MIG"),
        MIG,
        lambda made: made.vgpu(type_of(made, "-3-40C")),
        "3g.40gb",
    ),
    "whole": (T4, None, lambda made: made.bound(made.world.gpu().device), "passthrough"),
    "plain VF": (
        FLEX,
        GpuLayout(vfs=5),
        lambda made: made.bound(made.world.gpu().vfs[2].address),
        "FLEX-170-1of5",
    ),
}


def the(found: tuple[AdoptionCandidate, ...]) -> AdoptionCandidate:
    [only] = found
    return only


@pytest.mark.parametrize("name", WAYS)
def test_a_running_vm_is_adopted_untouched_and_is_ours_from_then_on(
    name: str, tmp_path: Path
) -> None:
    where, layout, make, profile = WAYS[name]
    with hands(tmp_path, where, layout) as made:
        made.run(domain("desk", make(made)))
        engine, before = made.world.engine, made.world.facts()
        found = the(engine.adoptable().candidates)
        assert (found.why, [each.offer.profile for each in found.parts]) == ((), [profile])
        engine.adopt("h1", ["desk"], tenant="lab").raise_for_failure()
        after = made.world.facts()
        assert (after.mdevs, after.gpus) == (before.mdevs, before.gpus)
        assert after.domains == (replace(before.domains[0], ownership=after.domains[0].ownership),)
        assert after.domains[0].state is DomainState.RUNNING
        # The ledger and the host agree, and its own file changes nothing.
        record = made.world.ledger.vm("desk")
        assert (record.running, record.spec.tenant, record.volumes) == (True, "lab", ())
        assert engine.drift().drifts == ()
        assert engine.plan([record.spec]).changes == 0
        # It is used as any other: stopped, lost, started, deleted.
        engine.stop_vms(["desk"], force=True, timeout_s=5).raise_for_failure()
        made.root.wait(10)
        made.host.domains.undefine("desk")
        engine.start(["desk"]).raise_for_failure()
        assert engine.drift().drifts == ()
        assert "spice" in made.host.domains.xml("desk"), "it keeps the definition it came with"
        engine.stop_vms(["desk"], force=True, timeout_s=5).raise_for_failure()
        made.root.wait(10)
        made.world.delete("desk")
        left = made.world.facts()
        assert (left.domains, left.claims, left.mdevs) == ((), (), ())


def with_refusal(made: Hands) -> Hands:
    made.world.sim.inject("h1", ["refuse", "domains.set_metadata", "EIO", "1"])
    return made


@pytest.mark.parametrize("name", ["mdev on the GPU", "vendor VF", "whole"])
def test_what_is_taken_back_is_as_it_was(name: str, tmp_path: Path) -> None:
    where, layout, make, _ = WAYS[name]
    with hands(tmp_path, where, layout) as made:
        made.run(domain("desk", make(made)))
        before = made.shown()
        outcome = with_refusal(made).world.engine.adopt("h1", ["desk"])
        assert [each.state for each in outcome.vms] == [TaskState.UNDONE]
        with pytest.raises(HostRefused):
            outcome.raise_for_failure()
        assert made.shown() == before
        assert made.world.ledger.vms() == ()
        made.world.engine.adopt("h1", ["desk"]).raise_for_failure()


def test_a_domain_without_gpus_is_adopted_off(tmp_path: Path) -> None:
    with hands(tmp_path, T4) as made:
        made.run(domain("desk"), start=False)
        made.world.engine.adopt("h1", ["desk"]).raise_for_failure()
        assert made.world.ledger.vm("desk").running is False
        assert made.world.engine.drift().drifts == ()


def test_several_take_different_slots(tmp_path: Path) -> None:
    with hands(tmp_path, T4) as made:
        for number, uuid in enumerate((MDEV, OTHER)):
            made.host.domains.define(domain(f"desk-{number}", made.mdev("T4-8Q", uuid), uuid=uuid))
        made.world.engine.adopt("h1", ["desk-0", "desk-1"]).raise_for_failure()
        slots = [slot for each in made.world.ledger.allocations() for slot in each.slots]
        assert sorted(slots) == list(range(16))
        assert made.world.engine.drift().drifts == ()


def test_memory_of_an_adopted_vm_is_changed_and_the_rest_of_it_kept(tmp_path: Path) -> None:
    with hands(tmp_path, T4) as made:
        made.run(domain("desk", made.mdev("T4-4Q")), start=False)
        engine = made.world.engine
        engine.adopt("h1", ["desk"]).raise_for_failure()
        spec = replace(made.world.ledger.vm("desk").spec, memory_mib=1024, vcpus=4)
        engine.apply([spec])[1].raise_for_failure()
        [found] = made.world.facts().domains
        assert (found.memory_mib, found.vcpus) == (1024, 4)
        assert "spice" in made.host.domains.xml("desk")
        assert engine.drift().drifts == ()
        with pytest.raises(Conflict, match="cannot be defined so"):
            engine.apply([replace(spec, firmware="uefi")])


# -- what cannot be adopted ------------------------------------------------------------------------


def another_fleets(made: Hands) -> str:
    """Claimed on the host by somebody else's vgpumgr."""
    hostdev = made.mdev("T4-4Q")
    gpu = made.world.gpu()
    kind = next(each.type_id for each in gpu.mdev_types if each.profile == "T4-4Q")
    claim = {"allocation": "a", "generation": 1, "vm": "theirs"}
    args = {"parent": gpu.device, "type": kind, "uuid": MDEV, "claim": claim}
    asked = {"verb": "mdev_adopt", "args": args, "fleet": "theirs", "epoch": 1}
    assert handle(asked, made.root.simulated.system)["ok"]
    return hostdev


def also_in_another(made: Hands) -> str:
    hostdev = made.mdev("T4-4Q")
    made.host.domains.define(domain("twin", hostdev, uuid=OTHER))
    return hostdev


ARGUMENTS = (
    "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>"
    "<qemu:arg value='-S'/></qemu:commandline>"
)
CANNOT: dict[str, tuple[Callable[[Hands], str], str]] = {
    "another fleet's claim": (
        lambda made: domain("desk", another_fleets(made)),
        "is claimed by fleet theirs for theirs",
    ),
    "in two domains": (
        lambda made: domain("desk", also_in_another(made)),
        "is in domain twin as well",
    ),
    "a device that is not there": (
        lambda made: domain("desk", mdev_hostdev(MDEV)),
        f"mdev {MDEV} does not exist",
    ),
    "managed": (
        lambda made: domain("desk", pci_hostdev(made.world.gpu().device, managed="yes")),
        "libvirt binds 0000:41:00.0 by itself",
    ),
    "not bound": (
        lambda made: domain("desk", pci_hostdev(made.world.gpu().device)),
        "is on nvidia, not on vfio-pci",
    ),
    "QEMU arguments": (lambda made: domain("desk", extra=ARGUMENTS), "its own QEMU arguments"),
    "a name of another kind": (lambda made: domain("Desk_1"), "virsh domrename Desk_1 desk-1)"),
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_cannot_be_adopted_says_why_and_stays(name: str, tmp_path: Path) -> None:
    make, said = CANNOT[name]
    with hands(tmp_path, T4) as made:
        xml = make(made)
        made.run(xml, start=False)
        before = made.shown()
        wanted = "Desk_1" if "Desk_1" in xml else "desk"
        found = next(
            each for each in made.world.engine.adoptable().candidates if each.name == wanted
        )
        assert any(said in why for why in found.why)
        with pytest.raises(Conflict, match="cannot be adopted") as caught:
            made.world.engine.adopt("h1", [wanted])
        assert said in caught.value.why
        assert made.shown() == before
        assert made.world.ledger.vms() == ()


def test_what_was_adopted_is_not_adopted_again(tmp_path: Path) -> None:
    with hands(tmp_path, T4) as made:
        made.run(domain("desk"), start=False)
        made.world.engine.adopt("h1", ["desk"]).raise_for_failure()
        assert made.world.engine.adoptable().candidates == (), "it is ours now"
        assert made.world.engine.adopt("h1", ["desk"]).vms == (), "and stays so"
        with pytest.raises(NotFound):
            made.world.engine.adopt("h1", ["other"])


def test_what_no_domain_names_is_listed_with_what_helps(tmp_path: Path) -> None:
    with hands(tmp_path, A40, VFS) as made:
        made.mdev("A40-8Q")
        found = made.world.engine.adoptable()
        assert found.candidates == ()
        assert [each.subject for each in found.loose] == [MDEV, made.world.gpu().device]
        assert "/remove" in found.loose[0].next
        assert found.loose[1].next == "vgpumgr adopt h1 --layout"


def test_a_host_that_does_not_answer_is_named_and_nothing_is_said_of_it(tmp_path: Path) -> None:
    with hands(tmp_path, T4) as made:
        made.run(domain("desk"), start=False)
        made.world.sim.inject("h1", ["unreachable"])
        found = made.world.engine.adoptable()
        assert (found.candidates, found.loose, len(found.not_read)) == ((), (), 1)
        with pytest.raises(Conflict, match="could not be read"):
            made.world.engine.adopt("h1", ["desk"])


def test_how_a_host_is_partitioned_is_declared_without_a_change(tmp_path: Path) -> None:
    with hands(tmp_path, A100, MIG) as made:
        made.run(domain("desk", made.vgpu(type_of(made, "-3-40C"))))
        before = made.world.gpu()
        plan, outcome = made.world.engine.adopt_layout("h1")
        outcome.raise_for_failure()
        assert not any(each.changes for each in plan.gpus)
        assert made.world.gpu() == before
        [record] = made.world.ledger.layouts()
        assert (record.settled, record.goal.instances) == (True, MIG.instances)
        assert [each.unit for each in made.world.facts().claims] == ["layout-0000:41:00.0"]
        assert made.world.engine.adoptable().loose == ()
        assert {each.kind for each in made.world.engine.drift().drifts} == {"foreign"}


def test_an_adopted_vm_is_healed_as_any_other(tmp_path: Path) -> None:
    with hands(tmp_path, T4) as made:
        made.run(domain("desk", made.mdev("T4-4Q")))
        made.world.engine.adopt("h1", ["desk"]).raise_for_failure()
        made.host.domains.destroy("desk")
        made.root.wait(10)
        made.root.write(f"/sys/bus/mdev/devices/{MDEV}/remove", "1")
        made.host.domains.undefine("desk")
        healed = made.world.engine.heal(DriftSelection())
        assert healed.left.remedies == ()
        assert MDEV in {each.uuid for each in made.world.facts().mdevs}


def test_an_adopted_vm_is_not_moved(tmp_path: Path) -> None:
    """Its disks and what else it needs are known to its own definition alone."""
    with hands(tmp_path, T4, None, host("T4", name="h2")) as made:
        made.run(domain("desk"), start=False)
        made.world.engine.adopt("h1", ["desk"]).raise_for_failure()
        with pytest.raises(Conflict, match="cannot be moved") as caught:
            made.world.engine.migrate("desk", "h2")
        assert "it was adopted" not in caught.value.message
        assert "desk was adopted" in caught.value.why


def test_a_name_that_the_fleet_has_already_is_told(tmp_path: Path) -> None:
    with hands(tmp_path, T4, None, host("T4", name="h2")) as made:
        made.world.apply(vm("desk", affinity=Affinity(hosts=("h2",))))
        made.run(domain("desk"), start=False)
        found = the(made.world.engine.adoptable(["h1"]).candidates)
        [why] = found.why
        assert why.startswith("the fleet has a VM desk already")
        assert "virsh domrename desk desk-2)" in why
