"""Identity values: parse once, print as the kernel does, order naturally."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PCI = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class PciAddress:
    """PCI function address, as the kernel prints it: ``0000:41:00.4``."""

    domain: int
    bus: int
    slot: int
    function: int

    @classmethod
    def parse(cls, text: str) -> PciAddress:
        """Read ``0000:41:00.0`` (sysfs) or ``00000000:41:00.0`` (NVML); ValueError otherwise."""
        match = _PCI.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"not a PCI address: {text!r}")
        return cls(*(int(part, 16) for part in match.groups()))

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.slot:02x}.{self.function:x}"
