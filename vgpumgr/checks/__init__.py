"""What ``vgpumgr doctor HOST`` asks of a host: one small pure function per check."""

from __future__ import annotations

from vgpumgr.checks import access_checks, hardware_checks, software_checks
from vgpumgr.model.examination import Examination, Finding

CHECKS = (
    *(hardware_checks.iommu, hardware_checks.interrupt_remapping, hardware_checks.isolation),
    *(software_checks.nouveau, software_checks.vfio, software_checks.kvm, software_checks.nesting),
    *(hardware_checks.firmware, hardware_checks.bars),
    *(
        software_checks.libvirt_version,
        software_checks.qemu,
        software_checks.vgpu_driver,
        software_checks.migration,
    ),
    *(access_checks.helper, access_checks.sudo, access_checks.libvirt, access_checks.restore),
    *(hardware_checks.storage, hardware_checks.clock),
)


def check_host(examination: Examination) -> tuple[Finding, ...]:
    """Every check, from the hardware upwards."""
    return tuple(check(examination) for check in CHECKS)
