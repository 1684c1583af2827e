"""The replicas of a file's VMs that the file names no longer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.model.scoped_reads import ScopedReads
    from vgpumgr.model.vm import VmSpec

# As ``replicas`` numbers them: at least two digits.
_REPLICA = re.compile(r"(.+)-(\d{2,})")
MOST_NAMED = 10


def surplus_notes(reads: ScopedReads, desired: Iterable[VmSpec]) -> tuple[str, ...]:
    """They by name, and how to delete them; empty where there are none."""
    left = surplus([spec.name for spec in desired], [vm.name for vm in reads.vms()])
    if not left:
        return ()
    more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
    shown = left[:MOST_NAMED]
    return (
        f"not in the file, left alone: {', '.join(shown)}{more}",
        f"  next: vgpumgr vm delete {' '.join(shown)}   (a running one needs --force)",
    )


def surplus(desired: Iterable[str], existing: Iterable[str]) -> list[str]:
    """Existing ``name-NN`` beyond the highest number that is desired of the same name."""
    highest: dict[str, int] = {}
    for name in desired:
        if found := _REPLICA.fullmatch(name):
            highest[found[1]] = max(highest.get(found[1], 0), int(found[2]))
    return sorted(
        name
        for name in existing
        if (found := _REPLICA.fullmatch(name))
        and int(found[2]) > highest.get(found[1], int(found[2]))
    )
