"""Can a guest's CPU run here?"""

from __future__ import annotations

from typing import Any

import libvirt
from lxml import etree

from vgpumgr.domainxml.xml import untrusted

# The guest sees what the host has: libvirt compares named models, and nothing to them.
_HOST_OWN = frozenset({"host-passthrough", "maximum"})
_CANNOT_TELL = frozenset(
    {
        libvirt.VIR_ERR_NO_SUPPORT,
        libvirt.VIR_ERR_OPERATION_UNSUPPORTED,
        libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
        libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
    }
)


def fits(connection: Any, xml: str) -> bool | None:
    """Compare the ``<cpu>`` of a domain's XML with what this host's QEMU offers its kind.

    None where libvirt cannot tell: no ``<cpu>``, a mode that takes the host's own CPU, emulation.
    Raises ValueError for text that is no domain.
    """
    domain = untrusted(xml, "domain")
    cpu, kind = domain.find("cpu"), domain.find("os/type")
    if cpu is None or kind is None or cpu.get("mode") in _HOST_OWN:
        return None
    try:
        verdict = connection.compareHypervisorCPU(
            domain.findtext("devices/emulator"),
            kind.get("arch"),
            kind.get("machine"),
            domain.get("type"),
            etree.tostring(cpu, encoding="unicode"),
            0,
        )
    except libvirt.libvirtError as error:
        if error.get_error_code() in _CANNOT_TELL:
            return None
        raise
    return bool(verdict in {libvirt.VIR_CPU_COMPARE_IDENTICAL, libvirt.VIR_CPU_COMPARE_SUPERSET})
