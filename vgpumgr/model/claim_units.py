"""Names of what a claim on a host is for, as the helper writes them (docs/helper-protocol.md)."""

from __future__ import annotations

FABRIC = "fabric-"
LAYOUT = "layout-"


def mdev(uuid: str) -> str:
    """A mediated device."""
    return f"mdev-{uuid}"


def pci(address: str) -> str:
    """A PCI function, by its address."""
    return f"pci-{address}"


def layout(address: str) -> str:
    """The layout of the GPU at a PCI address."""
    return f"{LAYOUT}{address}"


def fabric(partition: int) -> str:
    """An NVSwitch partition."""
    return f"{FABRIC}{partition}"
