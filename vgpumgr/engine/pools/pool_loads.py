"""What the desktops of pools do, noted cycle by cycle, for pools that scale by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vgpumgr.engine.desktops.load_history import GroupLoad, LoadHistory
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.desktop import DesktopRecord, DesktopRequestRecord, DesktopState, PoolRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.load_scale import LoadWindow, MeasuredLoads


class PoolLoads:
    """The notes of this process, by pool. A process that has just begun knows nothing: it makes no
    pool smaller until it has looked for as long as the pool's cooldown.
    """

    def __init__(self) -> None:
        self._notes: dict[str, LoadHistory] = {}

    def windows(self, context: EngineContext) -> Mapping[str, LoadWindow]:
        """Look once more; what each scaled pool asks for, by its id."""
        now, ledger = context.clock.now(), context.ledger
        scaled = [each for each in ledger.pools() if each.spec.scale is not None]
        self._notes = {each.id: self._notes.get(each.id, LoadHistory()) for each in scaled}
        if any(self._notes[each.id].is_due(now) for each in scaled):
            self._note(scaled, ledger, context.loads.newest(), now)
        return {
            each.id: self._notes[each.id].window(each.spec.scale, now)
            for each in scaled
            if each.spec.scale is not None
        }

    def _note(
        self, scaled: Iterable[PoolRecord], ledger: Ledger, loads: MeasuredLoads, now: float
    ) -> None:
        rows, asks = ledger.desktops(), ledger.pool_asks()
        for pool in scaled:
            if pool.spec.scale is not None and self._notes[pool.id].is_due(now):
                found = group_load(pool, rows, asks, loads)
                self._notes[pool.id].add(pool.spec.scale, found, now)


def group_load(
    pool: PoolRecord,
    rows: Iterable[DesktopRecord],
    asks: Iterable[DesktopRequestRecord],
    loads: MeasuredLoads,
) -> GroupLoad:
    """The load of a pool's desktops that run or are being made."""
    mine = [row for row in rows if row.pool == pool.id and _counts(row)]
    waiting = sum(each.pool == pool.id for each in asks)
    return GroupLoad(
        members=[loads.vms.get(row.vm_id) for row in mine],
        used=sum(row.desktop.used for row in mine) + waiting,
    )


def _counts(row: DesktopRecord) -> bool:
    return row.desktop.state in {
        DesktopState.READY,
        DesktopState.CREATING,
        DesktopState.UNKNOWN,
    }
