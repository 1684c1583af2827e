"""A guest is ready when its own checks say so, on the simulated fleet; its seed is emptied then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from tests.simworld import OLD, SimWorld, host, vm
from vgpumgr import domainxml
from vgpumgr.engine.steps.cloud_init_seed import EMPTIED
from vgpumgr.engine.vms import guest_checks
from vgpumgr.guests import guest_profiles
from vgpumgr.model.errors import HostRefused, NotFound
from vgpumgr.model.guest import ChosenProfile, GuestPhase, GuestSpec
from vgpumgr.model.secret import SecretValue
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_devices import CloudInit
from vgpumgr.sim.injection import inject
from vgpumgr.sim.libvirt.guest_script import GuestScript

WORD = "correct-horse-battery"
GUEST = GuestSpec(
    user="ada",
    password="ada-desktop",
    profiles=(
        ChosenProfile(name="docker"),
        ChosenProfile(name="nvidia-guest-driver", parameters={"licence_token": "lic"}),
    ),
)


class Secrets:
    """Secrets of the tenant ``default``."""

    values: ClassVar = {"ada-desktop": WORD, "lic": "token-of-the-licence"}

    def read(self, tenant: str, name: str) -> SecretValue:
        if tenant != "default" or name not in self.values:
            raise NotFound(f"no secret {name}")
        return SecretValue(self.values[name].encode())


@pytest.fixture
def world(tmp_path: Path) -> SimWorld:
    made = SimWorld(tmp_path, host("T4", versions=OLD))
    made.engine = replace(made.engine, secrets=Secrets())
    made.engine.refresh_all()
    return made


def spec(name: str = "desk", **more) -> VmSpec:
    fields = {"agent": True, "guest": GUEST, "cloud_init": CloudInit()}
    return vm(name, "T4-4Q", **(fields | more))


def made(world: SimWorld, **more) -> None:
    world.apply(spec(**more))


@pytest.mark.parametrize(
    ("system", "is_scsi"), [("", True), ("debian-12", True), ("windows-10", False)]
)
def test_each_system_has_a_driver_for_the_drive_of_its_seed(world, system, is_scsi):
    """Debian's kernel for clouds has none for SATA, Windows none for virtio-scsi."""
    guest = GuestSpec(user="ada", password="ada-desktop")
    made(world, os=system, guest=guest, vcpus=2, memory_mib=4096)
    [seed] = [
        each for each in domainxml.disks(world.sim.hosts["h1"].domains.xml("desk")) if each.cdrom
    ]
    assert seed.scsi is is_scsi


def look(world: SimWorld) -> tuple[GuestPhase, str]:
    guest_checks.turn(world.engine, guest_checks.with_checks(world.engine))
    guest = world.ledger.vm("desk").guest
    assert guest is not None
    return guest.phase, guest.why


def script(world: SimWorld, *words: str) -> None:
    inject(world.sim.host("h1"), ["guest", "desk", *words])


def seed(world: SimWorld) -> bytes:
    pool, name = world.ledger.vm("desk").volumes[-1]
    return world.engine.host("h1").storage.read(pool, name, 1 << 20)


def test_a_guest_is_ready_when_every_check_is_passed_and_its_seed_is_emptied(world):
    made(world)
    assert WORD.encode() in seed(world)
    assert look(world) == (GuestPhase.READY, "")
    assert WORD.encode() not in seed(world)
    assert EMPTIED.encode() in seed(world)
    guest = world.ledger.vm("desk").guest
    assert guest.emptied_at >= guest.ready_at > 0
    events = [each.event for each in world.ledger.audit(vm="desk")]
    assert {"vm.guest-ready", "vm.seed-emptied"} <= set(events)


def test_no_secret_is_in_the_ledger_or_its_trail(world, tmp_path):
    made(world)
    look(world)
    world.ledger.close()
    for file in filter(Path.is_file, tmp_path.iterdir()):
        assert WORD.encode() not in file.read_bytes(), file


def test_a_secret_is_in_use_until_the_seed_is_emptied(world):
    made(world)
    used = {(each.name, each.user) for each in world.ledger.secret_references()}
    assert used == {("ada-desktop", "vm desk"), ("lic", "vm desk")}
    look(world)
    assert world.ledger.secret_references() == ()


def test_a_fault_of_cloud_init_and_the_check_that_says_more_are_told_together(world):
    made(world)
    script(world, "fails", "cloud-init", "('scripts-user', RuntimeError)")
    script(world, "fails", "docker", "Cannot connect to the Docker daemon")
    why = "cloud-init failed: scripts-user: RuntimeError; Docker's daemon does not run"
    assert look(world) == (GuestPhase.FAILED, why)


def test_the_end_of_cloud_init_is_not_success(world):
    made(world)
    script(world, "fails", "docker", "Cannot connect to the Docker daemon at unix:///…")
    assert look(world) == (GuestPhase.STARTING, "Docker's daemon does not run")
    assert WORD.encode() in seed(world)


def test_cloud_inits_own_errors_are_the_reason(world):
    made(world)
    script(world, "fails", "cloud-init", "('package_update_upgrade_install', no such package)")
    phase, why = look(world)
    assert phase is GuestPhase.FAILED
    assert why == "cloud-init failed: package_update_upgrade_install: no such package"


def test_a_first_boot_takes_its_time(world):
    made(world)
    script(world, "boots", "600")
    assert look(world) == (GuestPhase.STARTING, "cloud-init is at work")


def test_the_command_is_asked_only_where_its_file_leaves_a_doubt(world, monkeypatch):
    made(world)
    script(world, "boots", "600")
    run: list[str] = []
    answer = GuestScript.answer

    def noted(own, asked, up_s, **more):
        run.append(" ".join(asked))
        return answer(own, asked, up_s, **more)

    monkeypatch.setattr(GuestScript, "answer", noted)
    assert look(world) == (GuestPhase.STARTING, "cloud-init is at work")
    assert run == ["cat /run/cloud-init/status.json"]
    known = world.ledger.vm("desk")
    late = replace(known.guest, started=known.guest.started - 0.6 * known.spec.guest.within_s)
    world.ledger.note_guests([late])
    run.clear()
    look(world)
    assert run[0] == "cloud-init status --format json", "it may have died"


@pytest.mark.parametrize(
    "words, phase, why",
    [
        (["silent"], GuestPhase.STARTING, "its agent does not answer"),
        (["no-programs"], GuestPhase.FAILED, "its agent runs no programs: The command guest-exec"),
        (["fails", "nvidia-smi", "No devices were found"], GuestPhase.STARTING, "finds no GPU"),
        (["fails", "nvidia-smi", "-q"], GuestPhase.STARTING, ""),
    ],
)
def test_what_keeps_a_guest_from_being_ready_is_named(world, words, phase, why):
    made(world)
    script(world, *words)
    found, said = look(world)
    assert found is phase
    assert why in said


def test_a_guest_that_is_off_is_unknown_and_starts_anew(world):
    made(world)
    look(world)
    world.sim.host("h1").opened().domains.destroy("desk")
    assert look(world) == (GuestPhase.UNKNOWN, "it is off")


def test_a_secret_that_is_not_there_is_said_before_anything_is_made(world):
    guest = replace(GUEST, password="other")
    with pytest.raises(NotFound, match="no secret other of tenant default"):
        made(world, guest=guest)
    assert world.ledger.vms() == ()


def test_a_vm_without_profiles_is_not_looked_at(world):
    made(world, guest=None)
    assert guest_checks.with_checks(world.engine) == []


def test_a_seed_that_cannot_be_emptied_is_told_and_no_other_guest_waits_for_it(world, monkeypatch):
    made(world)
    world.apply(spec("other"))

    def refuse(pool, name, data):
        raise HostRefused(f"{name} cannot be written", why="its pool is off")

    storage = world.engine.host("h1").storage
    upload = type(storage).upload
    monkeypatch.setattr(
        type(storage),
        "upload",
        lambda self, pool, name, data: (
            refuse(pool, name, data) if "desk" in name else upload(self, pool, name, data)
        ),
    )
    assert look(world) == (GuestPhase.READY, "its seed could not be emptied: its pool is off")
    other = world.ledger.vm("other").guest
    assert other is not None and other.phase is GuestPhase.READY and other.emptied_at
    monkeypatch.setattr(type(storage), "upload", upload)
    assert look(world) == (GuestPhase.READY, "")
    assert WORD.encode() not in seed(world)


def test_a_file_of_another_release_fails_its_own_guest_alone(world, monkeypatch):
    made(world)
    world.apply(spec("other", guest=GuestSpec()))
    known = guest_profiles.profile

    def profile(name):
        if name == "docker":
            raise KeyError(name)
        return known(name)

    monkeypatch.setattr("vgpumgr.guests.guest_set_up.profile", profile)
    phase, why = look(world)
    assert phase is GuestPhase.FAILED and "this release's guest profiles: docker" in why
    other = world.ledger.vm("other").guest
    assert other is not None and other.phase is GuestPhase.READY


def test_why_an_agent_runs_nothing_is_one_line_that_can_be_printed(world, monkeypatch):
    made(world)
    said = "a\n\x1b[31mb" + "c" * 5000

    def refuse(*_):
        raise HostRefused("it runs none", why=said)

    monkeypatch.setattr(type(world.engine.host("h1").domains), "run_in_guest", refuse)
    _, why = look(world)
    assert why.isprintable() and len(why) < 300
