"""The helper's ``examine`` answer becomes Examined; what makes no sense is named."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from vgpumgr.hosts.facts.examination_facts import examined
from vgpumgr.model.errors import OutcomeUnknown
from vgpumgr.model.examination import Bar, HostSetup, UnitState

ANSWER: dict[str, Any] = {
    "helper": "2", "installed": "1", "root": True, "user": "gpuadm", "now": 12.5,
    "synchronised": True, "kernel_line": ["ro"], "acpi_tables": ["DMAR"], "iommus": ["dmar0"],
    "iommu_groups": 3, "intel_ecap": {"dmar0": "f020df"}, "remapping": True,
    "unsafe_interrupts": False, "modules": ["kvm"], "available": ["vfio_pci"], "blacklisted": [],
    "guest_of": "", "nested": False, "sudo_rules": ["(root) X"], "pools_at_boot": ["default"],
    "units": {"a.service": {"load": "loaded", "enabled": "", "active": "x", "result": "success"}},
    "uefi": True, "secure_boot": False, "bars": {"0000:41:00.0": [[1, 2, 3], [0, 0, 0]]},
    "unknown": [{"part": "p", "why": "w"}],
}  # fmt: skip


def test_a_whole_answer() -> None:
    found = examined(ANSWER)
    assert (found.helper, found.installed, found.now) == ("2", "1", 12.5)
    assert found.intel_ecap == {"dmar0": 0xF020DF}
    assert found.units == {
        "a.service": UnitState(load="loaded", enabled="", active="x", result="success")
    }
    assert found.bars == {"0000:41:00.0": (Bar(1, 2, 3), Bar(0, 0, 0))}
    assert (found.blacklisted, found.guest_of) == ((), "")
    assert found.why("p") == "w"


def test_every_field_is_read() -> None:
    assert {each.name for each in fields(HostSetup)} | {"root"} == ANSWER.keys()
    assert examined({}) == HostSetup()
    assert examined(dict.fromkeys(ANSWER)) == HostSetup()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("now", "noon"),
        ("now", True),
        ("iommus", "dmar0"),
        ("iommus", [1]),
        ("iommu_groups", "3"),
        ("intel_ecap", {"dmar0": "xyz"}),
        ("remapping", "yes"),
        ("units", {"a": 1}),
        ("bars", {"0000:41:00.0": [[1, 2]]}),
        ("bars", {"0000:41:00.0": 7}),
        ("bars", {"0000:41:00.0": [["1", 2, 3]]}),
        ("unknown", "all"),
    ],
)
def test_what_makes_no_sense_is_named(part: str, value: object) -> None:
    with pytest.raises(OutcomeUnknown):
        examined({**ANSWER, part: value})
