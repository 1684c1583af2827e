"""A PF's SR-IOV capability: its files, its VFs, and what the kernel answers (behaviour §4).

Errno as in Linux 6.12 drivers/pci/iov.c.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from posixpath import dirname

from vgpumgr.model.formats import PciAddress
from vgpumgr.sim.boards.pci_board import PciBoard
from vgpumgr.sim.linux.file_tree import FileTree, refusal
from vgpumgr.sim.linux.pci_bus import IommuGroups, PciBus
from vgpumgr.sim.linux.pci_function import Function

_MOST_WRITTEN = 0xFFFF


@dataclass(slots=True, eq=False)
class Sriov:
    """The capability of ``pf``. ``vfs`` are its VFs by number; each has an IOMMU group of its own.

    ``in_use`` tells whether a guest holds a function. ``autoprobe``: new VFs are offered to the
    drivers.
    """

    pf: Function
    board: PciBoard
    tree: FileTree
    groups: IommuGroups
    bus: PciBus
    in_use: Callable[[str], bool]
    vfs: list[Function] = field(default_factory=list)
    autoprobe: bool = True

    def show(self) -> None:
        """Put the PF's files."""
        at, text = self.pf.path, self.tree.text
        text(f"{at}/sriov_totalvfs", f"{self.board.sriov_total}\n")
        text(f"{at}/sriov_offset", f"{self.board.vf_on_function}\n")
        text(f"{at}/sriov_stride", f"{self.board.vf_stride}\n")
        text(f"{at}/sriov_vf_device", f"{self.board.vf_device}\n")
        self.tree.file(f"{at}/sriov_numvfs", lambda: f"{len(self.vfs)}\n", self._write_count)
        self.tree.file(
            f"{at}/sriov_drivers_autoprobe",
            lambda: f"{int(self.autoprobe)}\n",
            self._write_autoprobe,
        )

    def enable(self, count: int) -> None:
        """Bring up ``count`` VFs; drivers get them where ``autoprobe`` or an override says so."""
        self.vfs = [self._vf(number) for number in range(count)]
        for number, vf in enumerate(self.vfs):
            self.bus.add(vf)
            self.tree.link(f"{self.pf.path}/virtfn{number}", vf.path)
            if self.autoprobe or vf.override:
                self.bus.probe(vf)

    def disable(self) -> None:
        """Take all VFs away. A guest that holds one would block this; here it is EBUSY."""
        if any(self.in_use(vf.address) for vf in self.vfs):
            raise refusal(errno.EBUSY)
        self.bus.remove(self.vfs)
        for number, vf in enumerate(self.vfs):
            self.tree.drop(f"{self.pf.path}/virtfn{number}")
            if vf.group is not None:
                self.groups.remove(vf.group)
        self.vfs = []

    def _vf(self, number: int) -> Function:
        address = self._address(number)
        path = f"{dirname(self.pf.path)}/{address}"
        return Function(
            address=address,
            path=path,
            pci_class=self.pf.pci_class,
            vendor=self.pf.vendor,
            device=self.board.vf_device,
            subsystem=self.pf.subsystem,
            numa_node=self.pf.numa_node,
            reset_methods="flr",
            physfn=self.pf.address,
            override=self.board.vf_driver,
            group=None if self.pf.group is None else self.groups.add(path),
            lost=self.pf.lost,
        )

    def _address(self, number: int) -> str:
        """The routing id: function numbers run on into the next slots (ARI)."""
        pf = PciAddress.parse(self.pf.address)
        distance = self.board.vf_on_function + number * self.board.vf_stride
        slot, function = divmod(pf.slot * 8 + pf.function + distance, 8)
        return str(PciAddress(pf.domain, pf.bus, slot, function))

    def _write_count(self, text: str) -> None:
        wanted = _number(text)
        if wanted > self.board.sriov_total:
            raise refusal(errno.ERANGE)
        if wanted == len(self.vfs):
            return
        driver = self.bus.drivers.get(self.pf.driver or "")
        if driver is None or not driver.sets_vfs:
            raise refusal(errno.ENOENT)
        if wanted and self.vfs:
            raise refusal(errno.EBUSY)
        if wanted:
            self.enable(wanted)
        else:
            self.disable()

    def _write_autoprobe(self, text: str) -> None:
        words = {"0": False, "n": False, "1": True, "y": True}
        if text.strip() not in words:
            raise refusal(errno.EINVAL)
        self.autoprobe = words[text.strip()]


def _number(text: str) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        raise refusal(errno.EINVAL) from None
    if not 0 <= number <= _MOST_WRITTEN:
        raise refusal(errno.EINVAL if number < 0 else errno.ERANGE)
    return number
