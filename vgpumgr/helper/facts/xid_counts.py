"""How often the kernel's log has named each Xid of each GPU since the boot.

The log forgets its oldest records, so what was counted is kept in a file that the boot empties.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from vgpumgr.helper import sysfs
from vgpumgr.helper.system import System

PATH = "/run/vgpumgr/xids.json"
LOCK = "/run/vgpumgr/xids.lock"
# ``priority,sequence,microseconds,flags;text`` (Documentation/ABI/testing/dev-kmsg). What a process
# wrote has a facility above 0 in its priority; the driver's lines have none.
_RECORD = re.compile(r"(\d+),(\d+),(\d+),[^;]*;(.*)")
_FACILITY, _MICRO = 8, 1e-6
# ``NVRM: Xid (PCI:0000:41:00): 79, …``; a MIG GPU instance stands behind the address.
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})"
    r"(?:\.[0-7])?(?: GPU-I:\d+)?\): (\d{1,4})\b"
)
# A host that is made to log without end must not make us keep without end.
_MOST_SLOTS, _MOST_CODES = 256, 256


@dataclass
class XidCounts:
    """By slot (``0000:41:00``): how often each code was seen, and when the last was (Unix
    seconds). ``next`` is the number of the first record that was not looked at.
    """

    next: int = 0
    codes: dict[str, dict[str, int]] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)

    def add(self, slot: str, code: str, at: float) -> None:
        """One more."""
        if slot not in self.codes and len(self.codes) >= _MOST_SLOTS:
            return
        seen = self.codes.setdefault(slot, {})
        if code in seen or len(seen) < _MOST_CODES:
            seen[code] = seen.get(code, 0) + 1
            self.last[slot] = max(at, self.last.get(slot, 0.0))

    def of(self, address: str) -> tuple[dict[str, int], float | None]:
        """The counts of the GPU at a PCI address, and when its last Xid was."""
        slot = address.rpartition(".")[0]
        return self.codes.get(slot, {}), self.last.get(slot)


def read(system: System) -> XidCounts:
    """The counts with what is new in the log; OSError where the log may not be read."""
    with system.lock(LOCK):
        counts = _kept(system)
        before, booted = counts.next, _booted_at(system)
        for record in system.kernel_log():
            _count(counts, record, booted)
        if counts.next != before:
            _keep(system, counts)
        return counts


def _count(counts: XidCounts, record: str, booted: float) -> None:
    head = _RECORD.match(record)
    if head is None or int(head.group(2)) < counts.next:
        return
    counts.next = int(head.group(2)) + 1
    found = _XID.match(head.group(4)) if int(head.group(1)) < _FACILITY else None
    if found:
        at = booted + int(head.group(3)) * _MICRO
        counts.add(found.group(1).lower(), found.group(2), at)


def _booted_at(system: System) -> float:
    return system.now() - float(sysfs.text(system, "/proc/uptime").split()[0])


def _kept(system: System) -> XidCounts:
    """Where the file is not ours, counting begins again."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        told: dict[str, Any] = json.loads(system.read(PATH))
        codes = {
            str(slot): {str(code): int(count) for code, count in seen.items()}
            for slot, seen in told["codes"].items()
        }
        last = {str(slot): float(at) for slot, at in told["last"].items()}
        return XidCounts(int(told["next"]), codes, last)
    return XidCounts()


def _keep(system: System, counts: XidCounts) -> None:
    """Where it cannot be kept, the next look counts what the log has left."""
    text = json.dumps({"next": counts.next, "codes": counts.codes, "last": counts.last})
    with suppress(OSError):
        system.store(PATH, text)
