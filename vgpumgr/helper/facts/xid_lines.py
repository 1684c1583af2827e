"""Lines of the kernel's log in which NVIDIA's driver names an Xid."""

from __future__ import annotations

import re
from dataclasses import dataclass

# A record is "priority,sequence,microseconds,flags;text" (Documentation/ABI/testing/dev-kmsg). What
# a process wrote has a facility above 0 in its priority; the driver's lines have none.
_RECORD = re.compile(r"(\d{1,4}),(\d{1,19}),(\d{1,19}),[^;]*;(.*)")
_FACILITY = 8
# The line as NVIDIA documents it; a MIG GPU instance stands behind the address.
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})"
    r"(?:\.[0-7])?(?: GPU-I:(\d{1,4}))?\): (\d{1,4})\b(?:, ?(.*))?"
)


@dataclass(frozen=True, slots=True)
class Xid:
    """What one line says: the GPU's PCI address, its MIG GPU instance, the number, the text."""

    address: str
    instance: int | None
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record: its number since the boot, when it was written (microseconds), its Xid."""

    seq: int
    at_us: int
    xid: Xid | None


def parsed(record: str) -> LogRecord | None:
    """A record as ``/dev/kmsg`` gives it; None where it is no record."""
    head = _RECORD.match(record)
    if head is None:
        return None
    found = _XID.match(head[4]) if int(head[1]) < _FACILITY else None
    return LogRecord(int(head[2]), int(head[3]), _xid(found) if found else None)


def _xid(found: re.Match[str]) -> Xid:
    domain, bus, device, instance, number, text = found.groups()
    return Xid(
        address=f"{int(domain, 16):04x}:{bus}:{device}.0".lower(),
        instance=None if instance is None else int(instance),
        number=int(number),
        text=text or "",
    )
