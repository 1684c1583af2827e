"""One PCI function and the files that every function has (Linux 6.12 drivers/pci/pci-sysfs.c)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

from vgpumgr.sim.linux.file_tree import FileTree, refusal

BUS = "/sys/bus/pci"

WIDTH = 16
# What the link's status register reads as once the function is gone.
_NO_LINK = 63
_PAGE = 4096
_CONFIG_BYTES = 256
_LINES, _VF_LINE = 13, 7
_NO_BAR = (0, 0, 0)
_BAR0, _PREFETCHABLE = (0xD0000000, 0xD0FFFFFF, 0x40200), 0x14220C
_WINDOWS, _WINDOW_BITS, _WINDOW_BYTES = 0x380000000000, 36, 1 << 35


@dataclass(slots=True, kw_only=True)
class Function:
    """One PCI function. ``group`` None: the IOMMU is off. ``physfn`` is a VF's PF.

    ``link_width``: of its PCIe link, x16 at most.
    ``dirty``: a guest had it since it was last reset. ``lost``: it fell off the bus. ``placed``:
    its BARs have addresses; ``vfs_placed``: so have those of its VFs, where it can have any.
    """

    address: str
    path: str
    pci_class: str
    vendor: str
    device: str
    subsystem: str
    numa_node: int
    reset_methods: str
    physfn: str = ""
    group: int | None = None
    driver: str | None = None
    override: str = ""
    dirty: bool = False
    lost: bool = False
    has_vf_bars: bool = False
    placed: bool = True
    vfs_placed: bool = True
    link_width: int = WIDTH

    def config(self) -> bytes:
        """The configuration space; all ones once the function is lost (behaviour §15)."""
        if self.lost:
            return b"\xff" * _CONFIG_BYTES
        head = bytearray(_CONFIG_BYTES)
        head[0:2], head[2:4] = _little(self.vendor), _little(self.device)
        head[4:8] = b"\x06\x04\x10\x00"  # bus master and memory on; has capabilities
        head[8:12] = b"\xa1" + bytes.fromhex(self.pci_class)[::-1]
        sub_vendor, sub_device = self.subsystem.split(":")
        head[0x2C:0x2E], head[0x2E:0x30] = _little(sub_vendor), _little(sub_device)
        return bytes(head)

    def width_told(self) -> int:
        """What sysfs shows as the width of its link."""
        return _NO_LINK if self.lost else self.link_width

    def resource(self) -> str:
        """BAR 0 to 5, the ROM, six BARs of VFs (Linux 6.12 drivers/pci/pci-sysfs.c).

        A 64-bit window takes two lines. The kernel leaves zeroes where it found no place
        (setup-bus.c, reset_resource).
        """
        base = _WINDOWS + (int(self.address[5:7], 16) << _WINDOW_BITS)
        own = [_BAR0, (base, base + _WINDOW_BYTES - 1, _PREFETCHABLE)] if self.placed else []
        top = base + _WINDOW_BYTES
        of_vfs = [(top, top + _WINDOW_BYTES - 1, _PREFETCHABLE)]
        lines = [*own, *[_NO_BAR] * (_VF_LINE - len(own))]
        lines += of_vfs if self.has_vf_bars and self.vfs_placed else []
        lines += [_NO_BAR] * (_LINES - len(lines))
        return "".join(" ".join(f"0x{word:016x}" for word in line) + "\n" for line in lines)


def show(tree: FileTree, function: Function, iommu_group: Callable[[int], str]) -> None:
    """Put the function's files; ``iommu_group`` gives a group's folder."""
    at = function.path
    vendor, device = function.subsystem.split(":")
    for name, text in {
        "class": f"0x{function.pci_class}",
        "vendor": f"0x{function.vendor}",
        "device": f"0x{function.device}",
        "subsystem_vendor": f"0x{vendor}",
        "subsystem_device": f"0x{device}",
        "numa_node": str(function.numa_node),
    }.items():
        tree.text(f"{at}/{name}", f"{text}\n")
    tree.link(f"{at}/subsystem", BUS)
    tree.file(f"{at}/resource", function.resource)
    tree.file(f"{at}/config", lambda: function.config().decode("utf-8", "replace"))
    tree.file(
        f"{at}/driver_override",
        lambda: f"{function.override or '(null)'}\n",
        lambda text: _override(function, text),
    )
    if not function.physfn:
        tree.text(f"{at}/max_link_width", f"{WIDTH}\n")
        tree.file(f"{at}/current_link_width", lambda: f"{function.width_told()}\n")
    _show_reset(tree, function)
    if function.pci_class.startswith("0300") and not function.physfn:
        tree.text(f"{at}/boot_vga", "0\n")
    if function.physfn:
        tree.link(f"{at}/physfn", f"{at.rpartition('/')[0]}/{function.physfn}")
    if function.group is not None:
        tree.link(f"{at}/iommu_group", iommu_group(function.group))


def _show_reset(tree: FileTree, function: Function) -> None:
    """``reset`` takes only 1, ``reset_method`` a subset of what there is (behaviour §11)."""
    supported = function.reset_methods

    def choose(text: str) -> None:
        words = text.split()
        if not set(words) <= {*supported.split(), "default"}:
            raise refusal(errno.EINVAL)
        function.reset_methods = supported if words == ["default"] else " ".join(words)

    tree.file(f"{function.path}/reset_method", lambda: f"{function.reset_methods}\n", choose)
    tree.file(f"{function.path}/reset", writer=lambda text: _reset(function, text))


def _reset(function: Function, text: str) -> None:
    if text.strip() != "1":
        raise refusal(errno.EINVAL)
    if not function.reset_methods or function.lost:
        raise refusal(errno.ENOTTY)
    function.dirty = False


def _override(function: Function, text: str) -> None:
    if len(text) >= _PAGE - 1:
        raise refusal(errno.EINVAL)
    function.override = text.partition("\n")[0]


def _little(word: str) -> bytes:
    return int(word, 16).to_bytes(2, "little")
