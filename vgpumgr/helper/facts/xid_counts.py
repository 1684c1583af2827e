"""How often the kernel's log has named each Xid of each GPU since the boot.

The log forgets its oldest records, so what was counted is kept in a file that the boot empties.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from vgpumgr.helper import sysfs
from vgpumgr.helper.facts import xid_lines
from vgpumgr.helper.facts.xid_lines import LogRecord
from vgpumgr.helper.system import System

PATH = "/run/vgpumgr/xids.json"
LOCK = "/run/vgpumgr/xids.lock"
_MICRO = 1e-6
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
        slot = _slot(address)
        return self.codes.get(slot, {}), self.last.get(slot)


def read(system: System) -> XidCounts:
    """The counts with what is new in the log; OSError where the log may not be read."""
    with system.lock(LOCK):
        counts = _kept(system)
        before, booted = counts.next, _booted_at(system)
        for record in map(xid_lines.parsed, system.kernel_log()):
            if record is not None and record.seq >= before:
                _count(counts, record, booted)
        if counts.next != before:
            _keep(system, counts)
        return counts


def _count(counts: XidCounts, record: LogRecord, booted: float) -> None:
    counts.next = max(counts.next, record.seq + 1)
    if record.xid is not None:
        slot = _slot(record.xid.address)
        counts.add(slot, str(record.xid.number), booted + record.at_us * _MICRO)


def _slot(address: str) -> str:
    return address.rpartition(".")[0]


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
