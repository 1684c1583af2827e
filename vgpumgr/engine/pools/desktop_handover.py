"""Desktops that have become ready, and the users that wait for them: seen to without a whole cycle
of the pools, which may be busy creating others for minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vgpumgr.engine.desktops.desktop_state import hosts_to_ask_again, row_after, updated_rows
from vgpumgr.engine.desktops.pool_decision import assignments
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.pools.pool_reading import PoolReading, read
from vgpumgr.model.desktop import DesktopRecord, DesktopState
from vgpumgr.model.errors import StaleGeneration


def hand_over(context: EngineContext) -> tuple[DesktopRecord, ...]:
    """Note the desktops that are ready now and assign them in the order of requests; the rows that
    changed. No desktop is said to have failed here, and none is begun, shelved or deleted.
    """
    ledger = context.ledger
    if ledger.frozen() is not None:
        return ()
    coming = any(each.desktop.state is DesktopState.CREATING for each in ledger.desktops())
    if not coming and not ledger.pool_asks():
        return ()
    reading = _asked_again(context, read(context))
    ready = [row for row in updated_rows(reading.rows, reading.seen) if row.desktop.ready]
    moved = ledger.take_desktops(ready) if ready else ()
    if reading.asks:
        moved += tuple(_assigned(context, replace(reading, rows=ledger.desktops())))
    return moved


def _asked_again(context: EngineContext, reading: PoolReading) -> PoolReading:
    """With fresh looks at the hosts of desktops that were created after the last one."""
    coming = [each for each in reading.rows if each.desktop.state is DesktopState.CREATING]
    hosts = {each.name for each in reading.view.hosts}
    doubts = hosts_to_ask_again(coming, reading.seen) & hosts
    if not doubts:
        return reading
    context.refresh(doubts)
    busy = reading.busy
    reading = read(context)
    return replace(reading, busy=busy | reading.busy)


def _assigned(context: EngineContext, reading: PoolReading) -> Iterator[DesktopRecord]:
    """Rows of desktops that users have got; where another process assigns desktops of the pool
    meanwhile, one of the two wins.
    """
    rows = {each.name: each for each in reading.rows}
    for pool in reading.pools:
        given = [
            move
            for each in assignments(reading.of(pool))
            if (move := row_after(each, pool, rows.get(each.desktop), reading.now, ""))
        ]
        try:
            yield from context.ledger.take_desktops(given, pool) if given else ()
        except StaleGeneration:
            continue
