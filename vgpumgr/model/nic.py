"""NICs with SR-IOV: physical functions of a host, their VFs, and what a VM asks of one.

A physical function (PF) is the NIC that the host has; each of its virtual functions (VFs) is a PCI
function that a guest can have (PCI SR-IOV; Linux Documentation/PCI/pci-iov-howto.rst).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SriovNic:
    """A NIC of a VM that is a VF: of the PF whose interface is ``physical``, or of any PF that its
    host joins to the physical ``network``; exactly one of the two.

    The PF tags what the guest sends with ``vlan``. ``trust``: the guest may set the VF's MAC
    address, and see what is for others. ``spoof_check``: the PF drops what does not come from the
    VF's own MAC address.
    """

    physical: str = ""
    network: str = ""
    vlan: int | None = None
    trust: bool = False
    spoof_check: bool = True

    @property
    def wanted(self) -> tuple[str, str]:
        """What placement looks for."""
        return self.physical, self.network

    @property
    def words(self) -> str:
        """How a sentence names it."""
        return f"NIC {self.physical}" if self.physical else f"physical network {self.network!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NicVf:
    """A VF that is on. ``busy`` is the host's own use of it; empty: none."""

    number: int
    address: str
    driver: str | None = None
    busy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NicFacts:
    """A PF: its interface's name, its PCI address, its folder in sysfs. ``up``: the interface is
    up, without which libvirt gives no VF of it to a guest. ``speed_mbit`` None: there is no link.
    """

    name: str
    device: str
    path: str
    driver: str | None = None
    numa_node: int | None = None
    up: bool = False
    speed_mbit: int | None = None
    sriov_total: int = 0
    vfs: tuple[NicVf, ...] = ()
