"""Xids and the driver's limits."""

from __future__ import annotations

import pynvml
import pytest

from vgpumgr import catalog
from vgpumgr.catalog.shipped_tables import table
from vgpumgr.model.health import ActionClass


def known(number: int) -> catalog.Xid:
    found = catalog.xid(number)
    assert found is not None
    return found


def test_every_row_is_looked_up() -> None:
    listed = catalog.xids()
    assert [each.number for each in listed] == [row["xid"] for row in table("xid")["xids"]]
    assert [each.number for each in listed] == list(range(1, 177))
    assert all(each.name and each.source for each in listed)
    assert catalog.xid(0) is None
    assert catalog.xid(9999) is None


def test_every_class_and_action_of_the_table_is_used_and_told() -> None:
    rows = table("xid")
    used = {each.action_class for each in catalog.xids()}
    assert used <= set(map(ActionClass, rows["classes"]))
    assert set(map(ActionClass, rows["classes"])) | {ActionClass.LOST} == set(ActionClass)
    assert ActionClass.UNREAD not in used
    assert {each.action for each in catalog.xids()} - {None} == set(rows["actions"])


def test_a_gpu_off_the_bus_needs_the_host_restarted() -> None:
    found = known(79)
    assert (found.severity, found.action) == ("fatal", "RESTART_HOST")
    assert classed(ActionClass.RESTART_HOST) == {79}


def classed(wanted: ActionClass) -> set[int]:
    return {each.number for each in catalog.xids() if each.action_class is wanted}


def test_those_that_a_reset_cures() -> None:
    """171 and 172 say of which memory a 48 is; 162 asks for nothing in NVIDIA's own catalogue."""
    assert classed(ActionClass.RESET) == {
        *(46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, 171, 172),
    }
    assert classed(ActionClass.RESET_WHEN_IDLE) == {63, 94, 160}


@pytest.mark.parametrize("number", [63, 160])
def test_memory_that_is_marked_for_repair_waits_for_a_reset_and_works_on(number: int) -> None:
    """As NVIDIA's memory-error page has it: 160 is no reason to restart the host."""
    found = known(number)
    assert (found.severity, found.action) == ("nonfatal", "RESET_WHEN_IDLE")
    assert "docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt" in found.source


@pytest.mark.parametrize("number", [171, 172])
def test_uncorrectable_dram_and_sram_are_what_48_is(number: int) -> None:
    found, dbe = known(number), known(48)
    assert (found.severity, found.action_class) == (dbe.severity, dbe.action_class)


def test_what_guests_do_wrong_is_theirs() -> None:
    assert {known(each).action_class for each in (13, 31, 43, 69, 151)} == {
        ActionClass.GUEST,
        ActionClass.NONE,
    }


@pytest.mark.parametrize("number", [167, 173, 176, 177, 9999])
def test_what_is_known_by_name_only_is_unknown_not_harmless(number: int) -> None:
    assert catalog.xid_class(number) is ActionClass.UNKNOWN
    assert ActionClass.UNKNOWN.rank > ActionClass.FOLLOW.rank


def test_what_no_driver_reports_any_more_is_marked() -> None:
    unused = {each.number for each in catalog.xids() if each.unused}
    assert {1, 30, 61, 91, 125} <= unused
    assert not unused & {8, 31, 48, 62, 63, 79, 92, 94, 119, 142, 154}


def test_which_xids_the_recovery_action_follows() -> None:
    """NVIDIA's catalogue says from which driver on; 119 and 140 are not among them."""
    assert (known(48).linked, known(109).linked, known(143).linked) == (565, 570, 575)
    assert (known(119).linked, known(140).linked, known(13).linked) == (None, None, None)


def test_each_recovery_action_has_its_class() -> None:
    found = catalog.recovery_actions()
    assert sorted(found) == list(range(8))
    assert [found[each].action_class for each in range(8)] == [
        ActionClass.NONE,
        ActionClass.RESET,
        ActionClass.RESTART_HOST,
        ActionClass.CHECK,
        ActionClass.RESET,
        ActionClass.CHECK,
        ActionClass.RESTART_HOST,
        ActionClass.RESTART_HOST,
    ]
    assert all(each.source for each in found.values())


def test_the_numbers_of_recovery_actions_are_those_of_nvml() -> None:
    for each in catalog.recovery_actions().values():
        assert getattr(pynvml, f"NVML_GPU_RECOVERY_ACTION_{each.name}") == each.number


def test_the_drivers_limits() -> None:
    limits = catalog.limits()
    assert (limits.per_gpu, limits.per_gpu_time_sliced) == (48, 32)
    assert (limits.per_gpu_instance, limits.per_vm) == (12, 16)
