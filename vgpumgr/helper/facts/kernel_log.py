"""Xids in the kernel's log: the newest of each number and GPU since the boot."""

from __future__ import annotations

from collections import Counter
from typing import Any

from vgpumgr.helper.facts import xid_lines
from vgpumgr.helper.facts.xid_lines import LogRecord
from vgpumgr.helper.system import System

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
        line = _told(xid_lines.parsed(record))
        if line is None or len(found) == MOST:
            continue
        key = (line["address"], line["xid"])
        told[key] += 1
        if told[key] <= MOST_OF_ONE:
            found.append(line)
    return found[::-1]


def _told(record: LogRecord | None) -> XidLine | None:
    if record is None or record.xid is None:
        return None
    return {
        "seq": record.seq,
        "at_us": record.at_us,
        "address": record.xid.address,
        "instance": record.xid.instance,
        "xid": record.xid.number,
        "text": record.xid.text[:_LONGEST],
    }
