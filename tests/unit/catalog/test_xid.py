"""Xids and the driver's limits."""

from __future__ import annotations

import pytest

from vgpumgr import catalog
from vgpumgr.catalog.shipped_tables import table


def listed() -> list[catalog.Xid]:
    found = [catalog.xid(row["xid"]) for row in table("xid")["xids"]]
    return [each for each in found if each is not None]


def test_every_row_is_looked_up() -> None:
    assert [each.number for each in listed()] == [row["xid"] for row in table("xid")["xids"]]
    assert all(each.name and each.source for each in listed())
    assert catalog.xid(0) is None
    assert catalog.xid(9999) is None


def test_a_gpu_off_the_bus_needs_the_host_restarted() -> None:
    found = catalog.xid(79)
    assert found is not None
    assert (found.needs_host_restart, found.needs_reset, found.drain) == (True, False, True)
    assert (found.severity, found.action) == ("fatal", "RESTART_HOST")
    assert {each.number for each in listed() if each.needs_host_restart} == {79}


def test_those_that_a_reset_cures() -> None:
    assert {each.number for each in listed() if each.needs_reset} == {
        *(46, 48, 62, 63, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, 160, 162),
        *(171, 172),
    }


@pytest.mark.parametrize("number", [63, 160])
def test_memory_that_is_marked_for_repair_waits_for_a_reset_and_works_on(number: int) -> None:
    """As NVIDIA's memory-error page has it: 160 is no reason to restart the host."""
    found = catalog.xid(number)
    assert found is not None
    assert (found.severity, found.action) == ("nonfatal", "RESET_WHEN_IDLE")
    assert (found.needs_reset, found.needs_host_restart, found.drain) == (True, False, False)
    assert "docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt" in found.source


@pytest.mark.parametrize("number", [171, 172])
def test_uncorrectable_dram_and_sram_are_what_48_is(number: int) -> None:
    found, beside = catalog.xid(number), catalog.xid(48)
    assert found is not None and beside is not None
    assert (found.severity, found.action) == (beside.severity, beside.action)
    assert (found.needs_reset, found.drain) == (beside.needs_reset, beside.drain)


def test_what_is_known_by_name_only_is_unknown_not_harmless() -> None:
    found = catalog.xid(167)
    assert found is not None
    assert (found.name, found.severity, found.action) == ("PCIE_FATAL_TIMEOUT", None, None)
    assert (found.needs_reset, found.needs_host_restart, found.drain) == (None, None, None)
    assert not found.verified


def test_the_drivers_limits() -> None:
    limits = catalog.limits()
    assert (limits.per_gpu, limits.per_gpu_time_sliced) == (48, 32)
    assert (limits.per_gpu_instance, limits.per_vm) == (12, 16)
