"""Adopting what is beside the GPU: NICs that libvirt binds, huge pages of the default size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.engine.foreign import FLEX, T4, Hands, domain, hands, pci_hostdev
from vgpumgr.model.layout import GpuLayout

NIC = "0000:3d:02.1"
MANAGED_NIC = """<interface type='hostdev' managed='yes'><mac address='52:54:00:00:00:09'/>
  <source><address type='pci' domain='0x0000' bus='0x3d' slot='0x02' function='0x1'/></source>
</interface>"""
DEFAULT_PAGES = "<memoryBacking><hugepages/></memoryBacking>"


def why(made: Hands) -> tuple[str, ...]:
    [only] = made.world.engine.adoptable().candidates
    return only.why


@pytest.mark.parametrize("nic", [MANAGED_NIC, pci_hostdev(NIC, managed="yes")])
def test_a_nic_that_libvirt_binds_is_left_alone(nic: str, tmp_path: Path) -> None:
    with hands(tmp_path, T4) as made:
        made.run(domain("desk", made.mdev("T4-4Q"), nic), start=False)
        assert why(made) == ()
        made.world.engine.adopt("h1", ["desk"]).raise_for_failure()
        xml = made.host.domains.xml("desk")
        assert "managed='yes'" in xml or 'managed="yes"' in xml
        assert [each.profile for each in made.world.ledger.allocations()] == ["T4-4Q"]
        assert made.world.engine.drift().drifts == ()
        made.world.engine.delete(["desk"], keep_disks=True, force=True).raise_for_failure()


def test_a_plain_vf_of_a_gpu_that_libvirt_binds_is_refused(tmp_path: Path) -> None:
    with hands(tmp_path, FLEX) as made:
        made.world.cut(GpuLayout(vfs=5))
        vf = made.world.gpu().vfs[2].address
        made.bound(vf)
        made.run(domain("desk", pci_hostdev(vf, managed="yes"), MANAGED_NIC), start=False)
        said = f"libvirt binds {vf} by itself at every start: virsh edit it to managed='no'"
        assert why(made) == (said,)


def test_huge_pages_of_the_default_size_are_huge_pages(tmp_path: Path) -> None:
    with hands(tmp_path, T4) as made:
        xml = domain("desk", made.mdev("T4-4Q"), extra=DEFAULT_PAGES)
        made.run(xml, start=False)
        made.world.engine.adopt("h1", ["desk"]).raise_for_failure()
        assert made.world.ledger.vm("desk").spec.hugepage_kib == 2048
        assert made.world.engine.drift().drifts == ()
