"""MIG mode, VFs, mixed-size mode and the scheduler: what a layout sets on a whole GPU."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.unit.helper.host import CLAIM, GPU, PCI, UUID, done, refused
from tests.unit.helper.nvidia import SRIOV_MANAGE, TYPE, VF, VFS, NvidiaHost
from tests.unit.helper.nvml import A100, Gi

MIG_ON = {"gpu": GPU, "enabled": True}
MIG_OFF = {"gpu": GPU, "enabled": False}


@pytest.fixture
def bare() -> NvidiaHost:
    """VFs off."""
    return NvidiaHost(vfs=False)


@pytest.fixture
def host() -> NvidiaHost:
    """VFs on."""
    return NvidiaHost()


def runs(host: NvidiaHost) -> list[str]:
    return [line for what, line in host.log if what == "run"]


# -- MIG mode (behaviour 8)


def test_mig_mode_is_set_and_read_back_without_a_reset(bare: NvidiaHost) -> None:
    """Hopper and later take the mode at once."""
    assert done(bare, "mig_mode_set", **MIG_ON) == {"enabled": True, "pending": True}
    assert bare.gpu.mig == (1, 1)
    assert done(bare, "mig_mode_set", **MIG_OFF) == {"enabled": False, "pending": False}
    assert runs(bare) == []


def test_a_pending_mode_resets_that_one_gpu(bare: NvidiaHost) -> None:
    """Ampere: the call succeeds and the mode waits for a reset."""
    bare.gpu.needs_reset = True
    assert done(bare, "mig_mode_set", **MIG_ON) == {"enabled": True, "pending": True}
    assert runs(bare) == [f"nvidia-smi --gpu-reset -i {GPU}"]


def test_a_mode_that_is_set_already_touches_nothing(bare: NvidiaHost) -> None:
    bare.gpu.mig = (1, 1)
    bare.program_holds()
    done(bare, "mig_mode_set", **MIG_ON)
    assert runs(bare) == []


def test_a_pending_change_can_be_called_off(bare: NvidiaHost) -> None:
    bare.gpu.needs_reset, bare.gpu.mig = True, (0, 1)
    assert done(bare, "mig_mode_set", **MIG_OFF)["pending"] is False
    assert runs(bare) == []


def test_a_reset_that_ends_well_without_effect_is_noticed(bare: NvidiaHost) -> None:
    bare.gpu.needs_reset = True
    bare.programs["nvidia-smi"] = (0, "GPU is still in use by another client\n")
    error = refused(bare, "mig_mode_set", **MIG_ON)
    assert error["code"] == "refused"
    assert "still in use by another client" in error["why"]
    del bare.programs["nvidia-smi"]
    assert refused(bare, "mig_mode_set", **MIG_ON)["errno"] == "ENOENT"


def test_a_gpu_that_nvml_misses_for_a_moment_after_its_reset_is_waited_for(
    bare: NvidiaHost,
) -> None:
    bare.gpu.needs_reset = True

    def reset(_: object) -> tuple[int, str]:
        bare.gpu.mig = (1, 1)
        bare.fake.fails["nvmlDeviceGetHandleByPciBusId"] = "NOT_FOUND"
        return 0, ""

    bare.programs["nvidia-smi"] = reset
    bare.on_wait = lambda: bare.fake.fails.clear() if bare.waited > 2 else None
    assert done(bare, "mig_mode_set", **MIG_ON)["enabled"] is True


def test_with_vfs_on_the_mode_cannot_change(host: NvidiaHost) -> None:
    """Paragraph 4: ``nvidia-smi -mig`` says In use by another client."""
    error = refused(host, "mig_mode_set", **MIG_ON)
    assert (error["code"], error["errno"]) == ("refused", "EBUSY")
    assert error["why"] == "4 virtual functions are on: turn them off first"


def test_with_instances_left_mig_is_not_turned_off(bare: NvidiaHost) -> None:
    bare.gpu.mig = (1, 1)
    bare.gpu.instances[1] = Gi(1, A100[0x2], 4)
    error = refused(bare, "mig_mode_set", **MIG_OFF)
    assert "destroy them first: instance 1 (profile 9 at 4:4)" in error["why"]
    assert bare.gpu.mig == (1, 1)


@pytest.mark.parametrize("verb", ["mig_mode_set", "vfs_set", "mixed_size_set"])
def test_programs_that_hold_the_gpu_are_named(host: NvidiaHost, verb: str) -> None:
    """Paragraph 14: monitors and daemons block MIG changes, sriov-manage and mixed-size mode."""
    if verb == "mig_mode_set":
        host.vfs_off()
    host.program_holds("dcgm-exporter")
    args: dict[str, Any] = {"count": 0} if verb == "vfs_set" else {"enabled": True}
    error = refused(host, verb, gpu=GPU, **args)
    assert (error["code"], error["errno"]) == ("in-use", "EBUSY")
    assert "/dev/nvidia0 is open in dcgm-exporter" in error["why"]
    assert runs(host) == []


def test_our_own_process_is_no_client(bare: NvidiaHost) -> None:
    bare.program_holds()
    bare.links["/proc/self"] = "77"
    assert done(bare, "mig_mode_set", **MIG_ON)["enabled"] is True


def test_nvml_that_says_in_use_is_believed(bare: NvidiaHost) -> None:
    bare.gpu.in_use.add("mig")
    error = refused(bare, "mig_mode_set", **MIG_ON)
    assert (error["code"], error["errno"]) == ("in-use", "EBUSY")


def test_a_board_without_mig_says_so(bare: NvidiaHost) -> None:
    bare.gpu.mig = None
    assert refused(bare, "mig_mode_set", **MIG_ON)["message"] == f"{GPU} has no MIG"
    bare.fake.fails["nvmlDeviceGetMigMode"] = "GPU_IS_LOST"
    assert refused(bare, "mig_mode_set", **MIG_ON)["code"] == "unknown"


# -- VFs (behaviour 4)


def test_nvidias_vfs_come_and_go_by_sriov_manage(bare: NvidiaHost) -> None:
    assert done(bare, "vfs_set", gpu=GPU, count=4) == {"count": 4, "vfs": list(VFS)}
    assert done(bare, "vfs_set", gpu=GPU, count=4)["count"] == 4
    assert done(bare, "vfs_set", gpu=GPU, count=0) == {"count": 0, "vfs": []}
    assert runs(bare) == [f"{SRIOV_MANAGE} -e {GPU}", f"{SRIOV_MANAGE} -d {GPU}"]
    assert not [path for what, path in bare.log if what == "write"], "a raw write is refused"


def test_the_unbind_lock_is_tried_five_times_a_second_apart(bare: NvidiaHost) -> None:
    bare.unbind_lock = 4
    assert done(bare, "vfs_set", gpu=GPU, count=4)["count"] == 4
    assert (len(runs(bare)), bare.waited) == (5, pytest.approx(4))


def test_an_unbind_lock_that_stays_is_told(bare: NvidiaHost) -> None:
    bare.unbind_lock = 99
    error = refused(bare, "vfs_set", gpu=GPU, count=4)
    assert error["code"] == "refused"
    assert "Cannot obtain unbindLock" in error["why"]
    assert "sriov_numvfs is 0 with 0 virtfn links; asked for 4" in error["why"]
    assert len(runs(bare)) == 5


def test_an_exit_status_of_0_is_not_trusted_and_readiness_is_awaited(bare: NvidiaHost) -> None:
    bare.programs[SRIOV_MANAGE] = (0, "")
    bare.on_wait = lambda: bare.vfs_on() if bare.waited > 3 else None
    assert done(bare, "vfs_set", gpu=GPU, count=4)["vfs"] == list(VFS)
    bare.on_wait = lambda: None
    assert refused(bare, "vfs_set", gpu=GPU, count=0)["code"] == "refused"


def test_vfs_that_no_driver_took_are_not_ready(bare: NvidiaHost) -> None:
    def manage(_: object) -> tuple[int, str]:
        bare.vfs_on(4, driver=None)
        return 0, ""

    bare.programs[SRIOV_MANAGE] = manage
    assert refused(bare, "vfs_set", gpu=GPU, count=4)["code"] == "refused"
    assert bare.waited == pytest.approx(30)


def test_without_nvidias_script_it_is_not_found(bare: NvidiaHost) -> None:
    del bare.programs[SRIOV_MANAGE]
    error = refused(bare, "vfs_set", gpu=GPU, count=4)
    assert (error["code"], error["errno"]) == ("not-found", "ENOENT")


@pytest.mark.parametrize(
    ("count", "number", "why"),
    [
        (9, "ERANGE", "sriov_totalvfs is 4"),
        (2, None, "sriov-manage turns on all 4 or none"),
    ],
)
def test_counts_that_cannot_be(bare: NvidiaHost, count: int, number: str, why: str) -> None:
    error = refused(bare, "vfs_set", gpu=GPU, count=count)
    assert (error["code"], error["errno"], error["why"]) == ("refused", number, why)


def test_vfs_that_something_lives_on_stay(host: NvidiaHost) -> None:
    """``sriov-manage`` would take them away under their guests."""
    host.types[VF] = TYPE
    path = host.real(f"{PCI}/devices/{VFS[1]}")
    host.add_parent(VFS[1], path, {"nvidia-1147": 1}, 1)
    done(host, "mdev_create", parent=VFS[1], type="nvidia-1147", uuid=UUID, claim=CLAIM)
    done(host, "vfio_bind", address=VFS[2], claim=CLAIM)
    host.open_groups.add(82)
    error = refused(host, "vfs_set", gpu=GPU, count=0)
    assert (error["code"], error["errno"]) == ("in-use", "EBUSY")
    assert error["why"].split("; ") == [
        f"{VF} carries a vGPU of type {TYPE}",
        f"mdev {UUID}",
        f"{VFS[2]} is open in a guest",
        f"mdev-{UUID} is claimed for desk-01",
        f"pci-{VFS[2]} is claimed for desk-01",
    ]
    assert runs(host) == []


def test_gim_takes_a_module_option(bare: NvidiaHost) -> None:
    """Paragraph 16: gim reads ``vf_num`` at load; a write to ``sriov_numvfs`` does nothing."""
    bare.add_driver("gim")
    bare.links[f"{bare.path}/driver"] = f"{PCI}/drivers/gim"
    error = refused(bare, "vfs_set", gpu=GPU, count=4)
    assert error["code"] == "refused"
    assert "`options gim vf_num=4` into /etc/modprobe.d/gim.conf" in error["why"]
    assert not [path for what, path in bare.log if what == "write"]
    assert done(bare, "vfs_set", gpu=GPU, count=0)["count"] == 0


def test_without_the_script_the_kernel_takes_the_count(bare: NvidiaHost) -> None:
    del bare.files[SRIOV_MANAGE]
    bare.sriov_by_kernel()
    assert done(bare, "vfs_set", gpu=GPU, count=2)["vfs"] == list(VFS[:2])
    assert runs(bare) == []


def test_other_drivers_go_through_0_and_keep_their_hands_off_the_vfs(bare: NvidiaHost) -> None:
    """Paragraph 4: one count after another is EBUSY; the host's driver must not take VFs."""
    bare.add_driver("xe")
    bare.links[f"{bare.path}/driver"] = f"{PCI}/drivers/xe"
    bare.sriov_by_kernel()
    assert done(bare, "vfs_set", gpu=GPU, count=2)["vfs"] == list(VFS[:2])
    assert bare.driver_of(VF) is None
    assert done(bare, "vfs_set", gpu=GPU, count=3)["count"] == 3
    written = [path.rpartition("/")[2] for what, path in bare.log if what == "write"]
    assert written == [
        *("sriov_drivers_autoprobe", "sriov_numvfs"),
        *("sriov_drivers_autoprobe", "sriov_numvfs", "sriov_numvfs"),
    ]
    bare.refuse["sriov_numvfs"] = errno.EIO
    assert refused(bare, "vfs_set", gpu=GPU, count=0)["errno"] == "EIO"


def test_without_a_driver_or_sriov_there_are_no_vfs(bare: NvidiaHost) -> None:
    bare.links[f"{bare.path}/driver"] = f"{PCI}/drivers/vfio-pci"
    assert "vfio-pci" in refused(bare, "vfs_set", gpu=GPU, count=4)["why"]
    del bare.links[f"{bare.path}/driver"]
    assert refused(bare, "vfs_set", gpu=GPU, count=4)["errno"] == "ENOENT"
    del bare.files[f"{bare.path}/sriov_totalvfs"]
    assert refused(bare, "vfs_set", gpu=GPU, count=4)["message"] == f"{GPU} has no SR-IOV"
    assert refused(bare, "vfs_set", gpu="0000:99:00.0", count=4)["code"] == "not-found"


# -- mixed-size mode (behaviour 7)


def test_mixed_size_mode_is_set_and_read_back(host: NvidiaHost) -> None:
    assert done(host, "mixed_size_set", gpu=GPU, enabled=True) == {"enabled": True}
    assert host.gpu.mixed == 1
    assert done(host, "mixed_size_set", gpu=GPU, enabled=False) == {"enabled": False}


def test_before_the_vfs_it_would_be_lost(bare: NvidiaHost) -> None:
    error = refused(bare, "mixed_size_set", gpu=GPU, enabled=True)
    assert (error["code"], error["message"]) == (
        "refused",
        f"mixed-size mode of {GPU} would be lost",
    )
    assert bare.gpu.mixed == 0


def test_with_vgpus_it_does_not_change(host: NvidiaHost) -> None:
    host.types[VF] = TYPE
    error = refused(host, "mixed_size_set", gpu=GPU, enabled=True)
    assert (error["code"], error["why"]) == ("in-use", f"{VF} carries a vGPU of type {TYPE}")


def test_a_board_without_the_mode_and_one_in_mig_mode_say_so(host: NvidiaHost) -> None:
    host.gpu.mig = (1, 1)
    assert "MIG is on" in refused(host, "mixed_size_set", gpu=GPU, enabled=True)["why"]
    host.gpu.mig, host.gpu.mixed = None, None
    error = refused(host, "mixed_size_set", gpu=GPU, enabled=False)
    assert (error["code"], error["message"]) == ("refused", f"{GPU} has no mixed-size mode")


def test_a_mode_without_effect_or_in_use_is_told(host: NvidiaHost) -> None:
    host.fake.answers["nvmlDeviceSetVgpuHeterogeneousMode"] = 0
    error = refused(host, "mixed_size_set", gpu=GPU, enabled=True)
    assert error["why"] == "NVML took the call without effect"
    host.fake.answers.clear()
    host.gpu.in_use.add("mixed")
    assert refused(host, "mixed_size_set", gpu=GPU, enabled=True)["code"] == "in-use"
    host.fake.fails["nvmlDeviceGetVgpuHeterogeneousMode"] = "UNKNOWN"
    assert refused(host, "mixed_size_set", gpu=GPU, enabled=True)["code"] == "unknown"


# -- the scheduler (behaviour 9)


@pytest.mark.parametrize(
    ("policy", "number"), [("best-effort", 1), ("equal-share", 2), ("fixed-share", 3)]
)
def test_the_policy_is_set_and_read_back(host: NvidiaHost, policy: str, number: int) -> None:
    host.gpu.policy = 1 if number != 1 else 2
    assert done(host, "scheduler_set", gpu=GPU, policy=policy) == {"policy": policy}
    assert host.gpu.policy == number


@pytest.mark.parametrize("timing", [[2500], [480, 51], []])
def test_its_timing_is_set_and_read_back(host: NvidiaHost, timing: list[int]) -> None:
    host.gpu.timing = (5_000_000,)
    done(host, "scheduler_set", gpu=GPU, policy="equal-share", timing=timing)
    [told] = [each for each in done(host, "probe")["nvml"]["gpus"] if each["scheduler"]]
    assert (told["scheduler_timed"], told["scheduler_timing"]) == (True, timing)
    host.gpu.in_use.add("scheduler")
    done(host, "scheduler_set", gpu=GPU, policy="equal-share", timing=timing)


@pytest.mark.parametrize(
    ("arr", "policy", "timing", "why"),
    [
        ("yes", "best-effort", [2000], "no time slices"),
        ("yes", "equal-share", [500], "slices are 1000 to 30000 microseconds"),
        ("yes", "equal-share", [2000, 33], "63 to 960 Hz, averaging 1 to 60"),
        ("no", "fixed-share", [480, 33], "no adaptive round robin"),
        ("", "fixed-share", [2000], "tells no bounds"),
    ],
)
def test_a_timing_that_cannot_be_is_refused(
    host: NvidiaHost, arr: str, policy: str, timing: list[int], why: str
) -> None:
    host.gpu.arr = arr
    error = refused(host, "scheduler_set", gpu=GPU, policy=policy, timing=timing)
    assert error["code"] == "refused"
    assert why in error["why"]
    assert host.gpu.timing == ()


@pytest.mark.parametrize("timing", [[0], [1, 2, 3], "4ms", [2_000_000]])
def test_a_timing_that_is_none_is_a_bad_argument(host: NvidiaHost, timing: object) -> None:
    error = refused(host, "scheduler_set", gpu=GPU, policy="equal-share", timing=timing)
    assert error["code"] == "bad-argument"


def test_fixed_share_does_not_go_with_mixed_sizes(host: NvidiaHost) -> None:
    """Paragraph 7: best effort and equal share only."""
    host.gpu.mixed = 1
    error = refused(host, "scheduler_set", gpu=GPU, policy="fixed-share")
    assert (error["code"], error["message"]) == ("refused", f"{GPU} is in mixed-size mode")
    assert host.gpu.policy == 1


def test_policies_that_are_not_taken_are_told(host: NvidiaHost) -> None:
    host.gpu.in_use.add("scheduler")
    assert refused(host, "scheduler_set", gpu=GPU, policy="equal-share")["code"] == "in-use"
    host.gpu.in_use.clear()
    host.fake.answers["nvmlDeviceSetVgpuSchedulerState"] = 0
    error = refused(host, "scheduler_set", gpu=GPU, policy="equal-share")
    assert error["why"] == "it reads best-effort afterwards"
    host.gpu.policy = None
    error = refused(host, "scheduler_set", gpu=GPU, policy="equal-share")
    assert error["message"] == f"{GPU} has no vGPU scheduler to set"
    assert refused(host, "scheduler_set", gpu=GPU, policy="greedy")["code"] == "bad-argument"


@pytest.mark.parametrize(
    ("verb", "args"),
    [
        ("mig_mode_set", {"enabled": 1}),
        ("vfs_set", {"count": "max"}),
        ("mixed_size_set", {"enabled": None}),
        ("gi_create", {"profile_id": 19, "size": 1, "compute": None}),
        ("gi_create", {"profile_id": 19, "size": 1, "compute": [-1]}),
        ("gi_create", {"profile_id": 19, "size": 1, "compute": [0] * 65}),
    ],
)
def test_arguments_are_checked(host: NvidiaHost, verb: str, args: dict[str, Any]) -> None:
    assert refused(host, verb, gpu=GPU, **args)["code"] == "bad-argument"


@pytest.mark.parametrize(
    ("verb", "args"),
    [
        ("mig_mode_set", {"enabled": True}),
        ("mixed_size_set", {"enabled": True}),
        ("scheduler_set", {"policy": "equal-share"}),
    ],
)
def test_a_gpu_that_nvml_does_not_know_is_not_found(
    host: NvidiaHost, verb: str, args: dict[str, Any]
) -> None:
    error = refused(host, verb, gpu="0000:99:00.0", **args)
    assert error["message"] == "NVML does not know 0000:99:00.0"
    assert host.fake.open == 0
