"""One PCI function and the files that every function has (Linux 6.12 drivers/pci/pci-sysfs.c)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

from vgpumgr.sim.linux.tree import Tree, refusal

BUS = "/sys/bus/pci"

_PAGE = 4096
_CONFIG_BYTES = 256


@dataclass(slots=True, kw_only=True)
class Function:
    """One PCI function. ``group`` None: the IOMMU is off. ``physfn`` is a VF's PF.

    ``dirty``: a guest had it since it was last reset. ``lost``: it fell off the bus.
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


def show(tree: Tree, function: Function, iommu_group: Callable[[int], str]) -> None:
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
    tree.file(f"{at}/config", lambda: function.config().decode("utf-8", "replace"))
    tree.file(
        f"{at}/driver_override",
        lambda: f"{function.override or '(null)'}\n",
        lambda text: _override(function, text),
    )
    _show_reset(tree, function)
    if function.pci_class.startswith("0300") and not function.physfn:
        tree.text(f"{at}/boot_vga", "0\n")
    if function.physfn:
        tree.link(f"{at}/physfn", f"{at.rpartition('/')[0]}/{function.physfn}")
    if function.group is not None:
        tree.link(f"{at}/iommu_group", iommu_group(function.group))


def _show_reset(tree: Tree, function: Function) -> None:
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
