"""What the firmware left behind: how it booted, and where it put the GPUs' BARs."""

from __future__ import annotations

from vgpumgr.helper import pci
from vgpumgr.helper.parts import Parts
from vgpumgr.helper.system import System

_EFI = "/sys/firmware/efi"
_SECURE_BOOT = "SecureBoot-"


def uefi(system: System) -> bool:
    """Whether the kernel was started by UEFI."""
    return system.exists(_EFI)


def secure_boot(system: System) -> bool:
    """Whether Secure Boot is on; ValueError where UEFI's variables do not say."""
    if not uefi(system):
        return False
    folder = f"{_EFI}/efivars"
    for name in system.list(folder):
        if name.startswith(_SECURE_BOOT):
            # Four bytes of attributes, then the value.
            return system.read(f"{folder}/{name}")[-1:] == "\x01"
    raise ValueError("UEFI has no variable SecureBoot")


def bars(system: System, addresses: list[str], parts: Parts) -> dict[str, list[list[int]]]:
    """``[start, end, flags]`` of each line of each function's ``resource``.

    Lines 0 to 5 are its BARs, 7 to 12 those of its VFs (include/linux/pci.h).
    """
    found = {each: parts.read(f"bars {each}", _bars, system, each) for each in addresses}
    return {address: lines for address, lines in found.items() if lines is not None}


def _bars(system: System, address: str) -> list[list[int]]:
    lines = system.read(f"{pci.path(address)}/resource").splitlines()
    return [[int(word, 16) for word in line.split()] for line in lines]
