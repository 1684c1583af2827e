"""Domains of other programs (tests/cases/domains): foreign, and their devices are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from vgpumgr import domainxml
from vgpumgr.model.domain import DomainFacts, DomainState

CASES = Path(__file__).parents[2] / "cases" / "domains"
T4, MDEV = "0000:41:00.0", "4b20d080-1b54-4048-85b3-a6a62d165c01"
L40S, VF = "0000:26:00.0", "0000:26:00.4"


@pytest.mark.parametrize(
    ("name", "domain", "devices"),
    [
        ("virt-install-mdev", "mdev-desk", (MDEV,)),
        ("virt-install-pci", "whole-t4", (T4,)),
        ("virt-install-vf-and-pf", "vf-l40s", (VF, L40S)),
        ("virt-install-nic-on-vf", "nic-vf", ("0000:02:10.0",)),
        ("virt-install-plain", "plain", ()),
        ("libvirt-mdev", "mdev-desk", (MDEV,)),
        ("libvirt-vf-and-pf", "vf-l40s", (VF, L40S)),
    ],
)
def test_a_domain_of_another_program_is_foreign_and_names_its_devices(
    name: str, domain: str, devices: tuple[str, ...]
) -> None:
    found = domainxml.parse((CASES / f"{name}.xml").read_text())
    assert found.ownership is None
    assert (found.name, found.devices) == (domain, devices)
    assert (found.vcpus, found.memory_mib, found.state) == (2, 4096, DomainState.SHUTOFF)


def test_metadata_of_others_and_upper_case_uuids_are_read() -> None:
    found = domainxml.parse((CASES / "documented-display.xml").read_text())
    assert found == DomainFacts(
        name="desk-from-docs",
        uuid="3b6c2e0a-1d2f-4b0c-9e0b-7a3f1c2d4e5f",
        state=DomainState.SHUTOFF,
        vcpus=8,
        memory_mib=16384,
        devices=("c2177883-f1bb-47f0-914d-32a22e3a8804", "0000:3d:00.4"),
    )
