"""A host that has forgotten all that the ledger has on it."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.engine.amnesia.reinstalled import lost, reason
from vgpumgr.engine.drift.side import Side
from vgpumgr.model.drift import Drift, DriftKind
from vgpumgr.model.words import counted


def drifts(side: Side) -> Iterator[Drift]:
    """One line for the host; what it lost is named VM by VM beside it."""
    gone = lost(side.facts, side.held, side.fleet)
    if gone:
        vms = sorted({each.vm for each in gone})
        yield Drift(
            kind=DriftKind.REINSTALLED,
            host=side.host,
            subject=side.host,
            text=f"{side.host}: {reason(gone)}",
            wanted=counted(len(gone), "claim"),
            found="none, and epoch 0",
            next=f"vgpumgr vm start {vms[0]} recreates a VM there if its disks are still there, "
            f"vgpumgr vm delete removes it for good; then vgpumgr host uncordon {side.host}",
        )
