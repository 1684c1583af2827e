"""Xids in the kernel's log: the newest of each number and GPU since the boot."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from vgpumgr.helper.system import System

# A record is "priority,sequence,microseconds,flags;text" (Documentation/ABI/testing/dev-kmsg). What
# a process wrote has a facility above 0 in its priority; the driver's lines have none.
_RECORD = re.compile(r"(\d+),(\d+),(\d+),[^;]*;(.*)")
_FACILITY = 8
# The line as NVIDIA documents it; a MIG GPU instance stands behind the address.
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})"
    r"(?: GPU-I:(\d+))?\): (\d{1,6})(?:, ?(.*))?"
)
# A GPU in trouble repeats itself thousands of times: sixteen lines are told of one Xid
# of one GPU, and 256 in all.
MOST_OF_ONE, MOST = 16, 256
_LONGEST = 200

XidLine = dict[str, Any]


def xids(system: System) -> list[XidLine] | None:
    """The newest lines in the order of their sequence numbers, which begin at 0 with each boot.

    None where there is no log to read, or it is for others to read.
    """
    try:
        records = system.kernel_log()
    except (FileNotFoundError, PermissionError):
        return None
    found: list[XidLine] = []
    told: Counter[tuple[str, int]] = Counter()
    for record in reversed(records):
        line = _parsed(record)
        if line is None or len(found) == MOST:
            continue
        key = (line["address"], line["xid"])
        told[key] += 1
        if told[key] <= MOST_OF_ONE:
            found.append(line)
    return found[::-1]


def _parsed(record: str) -> XidLine | None:
    head = _RECORD.match(record)
    if head is None or int(head[1]) >= _FACILITY:
        return None
    xid = _XID.match(head[4])
    if xid is None:
        return None
    domain, bus, device, instance, number, text = xid.groups()
    return {
        "seq": int(head[2]),
        "at_us": int(head[3]),
        "address": f"{int(domain, 16):04x}:{bus}:{device}.0".lower(),
        "instance": None if instance is None else int(instance),
        "xid": int(number),
        "text": (text or "")[:_LONGEST],
    }
