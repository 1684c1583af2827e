"""Boot restore: what claims and layouts bring back, in order, with nobody to ask."""

from __future__ import annotations

import errno
import json
import sys
from typing import Any

import pytest

from tests.unit.helper.host import CLAIM, GPU, PCI, done
from tests.unit.helper.nvidia import (
    MIG_PROFILE,
    MIG_TYPE,
    SRIOV_MANAGE,
    TYPE,
    VF,
    VFS,
    NvidiaHost,
    instance,
)
from vgpumgr.helper import __main__, pci

GPU_KEY = {"allocation": "gpu-1", "generation": 3, "vm": "cut"}
SLICE = {"profile_id": MIG_PROFILE, "start": 2, "size": 1, "compute": []}
CUT: dict[str, Any] = {"mig": True, "vfs": 4, "instances": [SLICE]}
LAYOUT, UNIT = f"layout-{GPU}", f"pci-{VF}"


@pytest.fixture
def host() -> NvidiaHost:
    """MIG off, VFs off."""
    return NvidiaHost(vfs=False)


def claim(host: NvidiaHost, **parts: Any) -> None:
    done(host, "layout_claim", gpu=GPU, claim=GPU_KEY, **parts)


def booted(host: NvidiaHost) -> None:
    """As a reboot leaves an Ampere: no VF, no instance, modes by default, MIG mode kept."""
    host.restart()
    host.gpu.mixed, host.gpu.policy = 0, 1


def restore(host: NvidiaHost) -> dict[str, Any]:
    return done(host, "restore")


def instances(host: NvidiaHost) -> list[tuple[int, int]]:
    return sorted((each.profile.id, each.start) for each in host.gpu.instances.values())


# -- layouts ----------------------------------------------------------------------------------


def test_mig_mode_vfs_and_instances_come_back_in_that_order(host: NvidiaHost) -> None:
    claim(host, **CUT)
    assert restore(host) == {"restored": [LAYOUT], "failed": []}
    assert (host.gpu.mig, instances(host)) == ((1, 1), [(MIG_PROFILE, 2)])
    assert pci.vfs(host, GPU) == list(VFS)
    before = list(host.log)
    assert restore(host) == {"restored": [LAYOUT], "failed": []}
    assert [each for each in host.log[len(before) :] if each[0] != "remove"] == []


def test_mixed_size_mode_and_scheduler_come_after_the_vfs(host: NvidiaHost) -> None:
    claim(host, vfs=4, mixed_size=True, scheduler="equal-share")
    assert restore(host)["failed"] == []
    assert (host.gpu.mixed, host.gpu.policy) == (1, 2)
    claim(host, vfs=4, mixed_size=False, scheduler="fixed-share")
    assert restore(host)["failed"] == []
    assert (host.gpu.mixed, host.gpu.policy) == (0, 3)


def test_a_pending_mode_is_reset_at_boot(host: NvidiaHost) -> None:
    host.gpu.needs_reset = True
    claim(host, mig=True)
    assert restore(host)["failed"] == []
    assert host.gpu.mig == (1, 1)


def test_what_is_declared_as_off_is_off_where_the_board_has_none(host: NvidiaHost) -> None:
    host.gpu.mig = host.gpu.mixed = None
    del host.files[f"{host.path}/sriov_totalvfs"], host.files[f"{host.path}/sriov_numvfs"]
    claim(host, mig=False, vfs=0, mixed_size=False, instances=[])
    assert restore(host) == {"restored": [LAYOUT], "failed": []}


@pytest.mark.parametrize("part", [{"mig": True}, {"mixed_size": True}, {"instances": [SLICE]}])
def test_what_the_board_has_not_is_named(host: NvidiaHost, part: dict[str, Any]) -> None:
    host.gpu.mig = host.gpu.mixed = None
    claim(host, **part)
    [failed] = restore(host)["failed"]
    assert failed["unit"] == LAYOUT


def test_compute_instances_are_made_where_declared_and_left_where_not(host: NvidiaHost) -> None:
    claim(host, mig=True, vfs=4, instances=[{**SLICE, "compute": [0]}])
    assert restore(host)["failed"] == []
    [made] = host.gpu.instances.values()
    assert list(made.computes.values()) == [0]
    claim(host, **CUT)
    assert restore(host)["failed"] == []
    assert list(made.computes.values()) == [0]


def test_a_layout_is_no_reason_to_destroy_anything(host: NvidiaHost) -> None:
    """What stands is somebody's: a boot brings back, and takes nothing away."""
    claim(host, **CUT)
    restore(host)
    claim(host, mig=True, vfs=4, instances=[])
    assert restore(host)["failed"] == []
    assert instances(host) == [(MIG_PROFILE, 2)]


def test_another_count_of_vfs_is_not_forced_on_a_guest(host: NvidiaHost) -> None:
    claim(host, vfs=4)
    restore(host)
    done(host, "vgpu_create", vf=VF, type=TYPE, claim=CLAIM)
    claim(host, vfs=0)
    answer = restore(host)
    assert [each["unit"] for each in answer["failed"]] == [LAYOUT, UNIT]
    assert host.types == {VF: TYPE}


# -- and what lives in them -------------------------------------------------------------------


@pytest.fixture
def full(host: NvidiaHost) -> NvidiaHost:
    """MIG with a declared instance in use, one made for a VM, and a time-sliced one elsewhere."""
    claim(host, **CUT)
    restore(host)
    done(host, "vgpu_create", vf=VF, type=MIG_TYPE, instance=instance(make=False), claim=CLAIM)
    made = {"instance": instance(start=5), "claim": {**CLAIM, "allocation": "alloc-2"}}
    done(host, "vgpu_create", vf=VFS[1], type=MIG_TYPE, **made)
    return host


def test_the_host_is_as_before_without_a_controller(full: NvidiaHost) -> None:
    before = (dict(full.types), instances(full), full.claims())
    booted(full)
    assert (full.types, instances(full)) == ({}, [])
    answer = restore(full)
    assert answer == {"restored": [LAYOUT, UNIT, f"pci-{VFS[1]}"], "failed": []}
    assert (dict(full.types), instances(full), full.claims()) == before
    assert restore(full) == answer


def test_an_instance_belongs_to_whom_it_belonged_before(full: NvidiaHost) -> None:
    booted(full)
    restore(full)
    done(full, "vgpu_release", vf=VF, claim=CLAIM)
    done(full, "vgpu_release", vf=VFS[1], claim={**CLAIM, "allocation": "alloc-2"})
    assert instances(full) == [(MIG_PROFILE, 2)]


def test_nothing_is_tried_on_a_gpu_whose_layout_failed(full: NvidiaHost) -> None:
    full.files[f"{full.path}/sriov_offset"] = "4\n"
    full.files[f"{full.path}/sriov_stride"] = "1\n"
    full.add_function("0000:81:00.0", driver="nvidia", group=40)
    done(full, "vfio_bind", address="0000:81:00.0", claim={**CLAIM, "allocation": "alloc-3"})
    booted(full)
    full.programs[SRIOV_MANAGE] = (1, "broken")
    answer = restore(full)
    assert answer["restored"] == ["pci-0000:81:00.0"]
    [layout, *units] = answer["failed"]
    assert (layout["unit"], "broken" in layout["why"]) == (LAYOUT, True)
    reason = f"the layout of {GPU} was not restored"
    assert units == [{"unit": f"pci-{vf}", "why": reason} for vf in VFS[:2]]
    assert len(full.claims()) == 4


def test_a_damaged_layout_is_a_failed_one(full: NvidiaHost) -> None:
    booted(full)
    full.files[f"/var/lib/vgpumgr/claims/{LAYOUT}.json"] = "{"
    full.files["/var/lib/vgpumgr/claims/layout-0000:00:0f.0.json"] = "{"
    full.files["/var/lib/vgpumgr/claims/layout-nonsense.json"] = "{"
    failed = {each["unit"]: each["why"] for each in restore(full)["failed"]}
    assert "damaged" in failed[LAYOUT]
    assert failed[UNIT] == f"the layout of {GPU} was not restored"
    assert full.types == {}


def test_a_defect_in_one_unit_keeps_no_other_away(
    full: NvidiaHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    booted(full)

    def explode(*_: object) -> None:
        raise KeyError("nobody foresaw it")

    monkeypatch.setattr("vgpumgr.helper.verbs.layout_verbs.virtual_functions.put", explode)
    full.add_function("0000:81:00.0", driver="nvidia", group=40)
    failed = restore(full)["failed"]
    assert "KeyError" in failed[0]["why"]


def test_a_gpu_that_is_given_whole_keeps_its_layout(host: NvidiaHost) -> None:
    """On vfio-pci nobody tells its modes, and none is on."""
    claim(host, mig=False, vfs=0, mixed_size=False, scheduler="best-effort", instances=[])
    done(host, "vfio_bind", address=GPU, claim=CLAIM)
    booted(host)
    answer = {"restored": [LAYOUT, f"pci-{GPU}"], "failed": []}
    assert restore(host) == answer
    assert host.driver_of(GPU) == "vfio-pci"
    assert restore(host) == answer


# -- a boot under way -------------------------------------------------------------------------


def test_a_driver_that_loads_late_is_waited_for(host: NvidiaHost) -> None:
    claim(host, vfs=4)
    driver = host.links.pop(f"{host.path}/driver")

    def time_passes() -> None:
        if host.waited > 20:
            host.links[f"{host.path}/driver"] = driver

    host.on_wait = time_passes
    assert restore(host)["failed"] == []
    assert 20 < host.waited < 30


def test_patience_is_one_for_all_and_ends(host: NvidiaHost) -> None:
    claim(host, vfs=4)
    for number in range(5):
        other = f"0000:8{number}:00.0"
        host.add_function(other, driver="nvidia", group=40 + number)
        done(host, "vfio_bind", address=other, claim={**CLAIM, "allocation": f"alloc-{number}"})
        host.drop_function(other)
    host.links.pop(f"{host.path}/driver")
    failed = restore(host)["failed"]
    assert len(failed) == 6
    assert failed[0] == {
        "unit": LAYOUT,
        "why": f"{GPU} cannot be partitioned: {GPU} is on no driver",
    }
    assert 59 <= host.waited <= 61


def test_a_card_that_was_taken_out_is_not_waited_for(host: NvidiaHost) -> None:
    claim(host, vfs=4)
    host.drop_function(GPU)
    [failed] = restore(host)["failed"]
    assert "not on the bus" in failed["why"]
    assert host.waited == 0


def test_a_program_that_looks_at_the_gpu_as_it_starts_goes_away(host: NvidiaHost) -> None:
    claim(host, vfs=4)
    host.program_holds("dcgm")

    def time_passes() -> None:
        if host.waited > 5:
            host.links.pop("/proc/77/fd/5", None)

    host.on_wait = time_passes
    assert restore(host)["failed"] == []
    assert host.waited < 10


def test_one_that_stays_is_named(host: NvidiaHost) -> None:
    claim(host, vfs=4)
    host.program_holds("dcgm")
    [failed] = restore(host)["failed"]
    assert "dcgm" in failed["why"]


def test_vgpus_wait_for_their_vf(host: NvidiaHost) -> None:
    """No layout: somebody else's boot script turns the VFs on."""
    host.vfs_on()
    done(host, "vgpu_create", vf=VF, type=TYPE, claim=CLAIM)
    booted(host)
    host.on_wait = lambda: host.vfs_on() if host.waited == 10 else None
    assert restore(host) == {"restored": [UNIT], "failed": []}


def test_no_epoch_stops_a_boot(host: NvidiaHost) -> None:
    claim(host, vfs=4)
    host.files["/var/lib/vgpumgr/epochs/fleet-1"] = "99\n"
    assert restore(host)["failed"] == []


# -- the command line -------------------------------------------------------------------------


def test_the_boot_prints_lines_and_fails_when_something_did(
    host: NvidiaHost, capsys: pytest.CaptureFixture[str]
) -> None:
    claim(host, vfs=4)
    assert __main__.restore(host) == 0
    assert capsys.readouterr() == (f"restored {LAYOUT}\n", "")
    host.files["/var/lib/vgpumgr/claims/pci-x.json"] = "{"
    assert __main__.restore(host) == 1
    assert capsys.readouterr().err.startswith(
        "not restored: pci-x: the claim on pci-x is damaged: "
    )


def test_a_boot_that_may_not_says_so(host: NvidiaHost, capsys: pytest.CaptureFixture[str]) -> None:
    host.is_root = False
    assert __main__.restore(host) == 1
    assert "changes need root" in capsys.readouterr().err


def test_the_flag_reads_no_request(
    host: NvidiaHost,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(__main__, "System", lambda: host)
    monkeypatch.setattr(sys, "argv", ["vgpumgr-helper", "--restore"])
    monkeypatch.setattr(sys, "stdin", None)
    assert __main__.main() == 0


# -- where VFs are ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "offset", "stride", "first", "last"),
    [
        ("0000:41:00.0", 4, 1, "0000:41:00.4", "0000:41:01.3"),
        ("0000:05:00.0", 128, 2, "0000:05:10.0", "0000:05:11.6"),
        ("0000:05:00.1", 256, 4, "0000:06:00.1", "0000:06:03.5"),
    ],
)
def test_vfs_that_are_off_have_addresses(
    host: NvidiaHost, at: str, offset: int, stride: int, first: str, last: str
) -> None:
    path = host.path if at == GPU else host.add_function(at)
    texts = {"sriov_totalvfs": 8, "sriov_offset": offset, "sriov_stride": stride}
    assert pci.vf_addresses(host, at) == ()
    host.files |= {f"{path}/{name}": f"{number}\n" for name, number in texts.items()}
    found = pci.vf_addresses(host, at)
    assert (found[0], found[-1], len(found)) == (first, last, 8)


def test_the_claims_are_what_the_disk_says(host: NvidiaHost) -> None:
    """A claim of a newer helper is named, not guessed."""
    claim(host, vfs=4)
    path = f"/var/lib/vgpumgr/claims/{LAYOUT}.json"
    text = host.read(path)
    host.files[path] = json.dumps({**json.loads(text), "wanted": {"kind": "future"}})
    [failed] = restore(host)["failed"]
    assert "does not know" in failed["why"]
    host.unreadable[path] = errno.EIO
    assert restore(host)["failed"][0]["unit"] == LAYOUT
    assert f"{PCI}/devices/{GPU}" in host.links
