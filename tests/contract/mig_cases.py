"""MIG mode (§8), and what VFs (§4), resets and boots leave of GPU instances."""

from __future__ import annotations

import pytest

from tests.contract.bench import Cases
from tests.contract.mig_bench import MigBench
from tests.contract.vgpus import VgpuBench
from vgpumgr.model.errors import HostRefused, InUse

CASES = Cases[MigBench]()
FAULT_CASES = Cases[MigBench]()
REBOOT_CASES = Cases[MigBench]()
# For boards without MIG.
WITHOUT_CASES = Cases[VgpuBench]()


# -- the mode


@CASES.case("8.1")
def the_mode_of_an_idle_gpu_changes_at_once(bench: MigBench) -> None:
    assert bench.nvml.set_mig_mode(bench.pf, True) == "SUCCESS"
    assert (bench.mig().enabled, bench.mig().pending) == (True, True)
    assert bench.nvml.set_mig_mode(bench.pf, False) == "SUCCESS"
    assert (bench.mig().enabled, bench.mig().pending) == (False, False)
    bench.set_mode(True)
    bench.set_mode(True)
    bench.set_mode(False)


@FAULT_CASES.case("8.2")
def the_mode_of_a_gpu_in_use_stays_pending(bench: MigBench) -> None:
    with bench.may_suffer.client(bench.pf, "dcgm"):
        assert bench.nvml.set_mig_mode(bench.pf, True) in {"IN_USE", "RESET_REQUIRED"}
        assert (bench.mig().enabled, bench.mig().pending) == (False, True)
        with pytest.raises(InUse) as caught:
            bench.set_mode(True)
        assert "dcgm" in caught.value.why
        assert bench.mig().enabled is False
    bench.set_mode(True)
    bench.set_mode(False)


@CASES.case("8.3")
def the_mode_stays_while_instances_are_left(bench: MigBench) -> None:
    with bench.mig_mode():
        made = bench.make(bench.small)
        with pytest.raises(HostRefused) as caught:
            bench.set_mode(False)
        assert caught.value.errno_name == "EBUSY"
        assert f"instance {made.id}" in caught.value.why
        assert bench.instances() == (made,)


@CASES.case("4.14", "8.17")
def the_mode_does_not_change_while_vfs_are_on(bench: MigBench) -> None:
    for on in (True, False):
        bench.vfs(True)
        assert bench.nvml.set_mig_mode(bench.pf, on) == "IN_USE"
        assert (bench.mig().enabled, bench.mig().pending) == (not on, not on)
        with pytest.raises(HostRefused, match=bench.pf) as caught:
            bench.set_mode(on)
        assert caught.value.errno_name == "EBUSY"
        bench.vfs(False)
        bench.set_mode(on)


@CASES.case("8.4")
def there_are_no_instances_while_the_mode_is_off(bench: MigBench) -> None:
    assert bench.nvml.destroy_instance(bench.pf, 0) == "NOT_SUPPORTED"
    with pytest.raises(HostRefused, match="MIG is off"):
        bench.call("gi_create", gpu=bench.pf, profile_id=0, size=8, compute=[])


@CASES.case("7.15")
def there_is_no_mixed_size_mode_in_mig_mode(bench: MigBench) -> None:
    """Of the GPU: from R575 on its GPU instances have one each, which nobody turns on here."""
    with bench.mig_mode():
        assert bench.facts(bench.pf).mixed_size is None
        assert bench.nvml.set_mixed_size(bench.pf, True) == "NOT_SUPPORTED"
        with pytest.raises(HostRefused, match="mixed-size"):
            bench.call("mixed_size_set", gpu=bench.pf, enabled=True)


@WITHOUT_CASES.case("8.20")
def a_board_without_mig_says_so(bench: VgpuBench) -> None:
    assert bench.facts(bench.gpu).mig is None
    assert bench.nvml.set_mig_mode(bench.gpu, True) == "NOT_SUPPORTED"
    with pytest.raises(HostRefused, match="no MIG"):
        bench.call("mig_mode_set", gpu=bench.gpu, enabled=True)


# -- what instances do not outlive


@CASES.case("4.12", "8.16")
def turning_vfs_on_or_off_loses_the_instances(bench: MigBench) -> None:
    with bench.mig_mode():
        for on in (True, False):
            bench.make(bench.large)
            bench.vfs(on)
            assert bench.instances() == ()
            assert bench.mig().enabled is True


@CASES.case("8.6")
def a_reset_loses_the_instances_and_keeps_the_mode(bench: MigBench) -> None:
    with bench.mig_mode():
        bench.make(bench.large)
        assert bench.machine.run("nvidia-smi", "--gpu-reset", "-i", bench.pf)[0] == 0
        assert (bench.mig().enabled, bench.instances()) == (True, ())


@FAULT_CASES.case("8.18")
def a_gpu_in_use_is_not_reset(bench: MigBench) -> None:
    with bench.mig_mode():
        made = bench.make(bench.large)
        with bench.may_suffer.client(bench.pf, "dcgm"):
            status, said = bench.machine.run("nvidia-smi", "--gpu-reset", "-i", bench.pf)
        assert status
        assert "In use by another client" in said
        assert bench.instances() == (made,)


@REBOOT_CASES.case("8.5", "8.7")
def a_boot_loses_the_instances_and_keeps_the_mode(bench: MigBench) -> None:
    bench.set_mode(True)
    bench.make(bench.large)
    bench.may_suffer.reboot()
    assert (bench.mig().enabled, bench.mig().pending, bench.instances()) == (True, True, ())
