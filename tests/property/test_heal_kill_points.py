"""A healing after a reboot is two operations, the layout's and the VM's; it dies anywhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.unit.drift.test_by_hand import Bench, no_numvfs, on_flex
from vgpumgr.engine.heal.remedy import DriftSelection


def dies(bench: Bench, at: int) -> bool:
    """The process is killed at the n-th durable write; False when it had fewer."""
    mortal = Mortal(bench.world.ledger, at, after=True)
    try:
        replace(bench.world.engine, ledger=mortal).heal(DriftSelection())  # type: ignore[arg-type]
    except Killed:
        bench.world.restart()
        return True
    return False


def test_what_a_cut_layout_hides_is_healed_too(tmp_path: Path) -> None:
    """A GPU that a cut change is to partition has no layout that differs, and its VM is off."""
    for at in count(1, 2):
        with on_flex(tmp_path / str(at)) as bench:
            no_numvfs(bench)
            died = dies(bench, at)
            bench.world.engine.heal(DriftSelection())
            assert not bench.found.drifts, f"killed at write {at}"
            assert bench.host.domains.list()[0].state == "running"
        if not died:
            break
    assert at > 4
