"""``vgpumgr-helper --restore``: what the host's own boot calls, with lines for its journal."""

from __future__ import annotations

import sys

from vgpumgr.helper.dispatch import handle
from vgpumgr.helper.system import System


def restore(system: System) -> int:
    """Replay every claim; 0 when all of them hold, else 1 and a line on stderr for each other."""
    answer = handle({"verb": "restore"}, system)
    if not answer["ok"]:
        _complain(f"nothing was restored: {answer['error']['message']}: {answer['error']['why']}")
        return 1
    done = answer["result"]
    for unit in done["restored"]:
        sys.stdout.write(f"restored {unit}\n")
    for each in done["failed"]:
        _complain(f"not restored: {each['unit']}: {each['why']}")
    return 1 if done["failed"] else 0


def _complain(line: str) -> None:
    sys.stderr.write(f"{line}\n")
