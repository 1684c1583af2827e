"""What ``vgpumgr doctor HOST`` asks of a host: one small pure function per check."""

from __future__ import annotations

from vgpumgr.checks import access, drivers, firmware, iommu, resources, versions
from vgpumgr.model.examined import Examination, Finding

CHECKS = (
    *(iommu.iommu, iommu.interrupt_remapping, iommu.isolation),
    *(drivers.nouveau, drivers.vfio, drivers.kvm, drivers.nesting),
    *(firmware.firmware, firmware.bars),
    *(versions.libvirt_version, versions.qemu, versions.vgpu_driver, versions.migration),
    *(access.helper, access.sudo, access.libvirt, access.restore),
    *(resources.storage, resources.clock),
)


def check_host(examination: Examination) -> tuple[Finding, ...]:
    """Every check, from the hardware upwards."""
    return tuple(check(examination) for check in CHECKS)
