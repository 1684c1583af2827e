"""When users of pools came before, read now and then, for pools that prewarm by learned hours."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.engine.desktops.learned_hours import LOOK_BACK_S, MOST_LOGINS, expected_logins
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.desktop import PoolRecord

# What is looked at lies a week and more back: what was read stays true for days.
_READ_AGAIN_S = 3600.0


class PoolHabits:
    """The logins of the last weeks by the pool's id, as this process has read them."""

    def __init__(self) -> None:
        self._logins: dict[str, tuple[float, ...]] = {}
        self._read_at = float("-inf")

    def expected(self, context: EngineContext) -> Mapping[str, int]:
        """How many users will probably come while a desktop is being made, by the pool's id."""
        now, ledger = context.clock.now(), context.ledger
        learning = [each for each in ledger.pools() if each.spec.learned_hours]
        if not 0 <= now - self._read_at < _READ_AGAIN_S:
            self._logins, self._read_at = {}, now
        for pool in learning:
            if pool.id not in self._logins:
                past = ledger.pool_sessions(pool.id, MOST_LOGINS, max(0.0, now - LOOK_BACK_S))
                self._logins[pool.id] = tuple(sorted(each.since for each in past))
        return {each.id: self._of(each, now) for each in learning}

    def _of(self, pool: PoolRecord, now: float) -> int:
        spec = pool.spec
        return expected_logins(self._logins[pool.id], now, spec.prewarm_s, spec.zone)
