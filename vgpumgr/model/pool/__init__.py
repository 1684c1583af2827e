"""VDI pools: as asked for, as they are, and what their controller answers. Plain values."""

from vgpumgr.model.pool.booking import Booking
from vgpumgr.model.pool.desktop import Ask, Desktop, DesktopState, Session
from vgpumgr.model.pool.naming import Naming
from vgpumgr.model.pool.record import DesktopRecord, PastSession, PoolAsk, PoolRecord
from vgpumgr.model.pool.rollout import Phase, Rollout
from vgpumgr.model.pool.schedule import DAYS, Schedule, overlap
from vgpumgr.model.pool.spec import (
    MAX_DESKTOPS,
    Autoheal,
    Entitlement,
    PoolKind,
    PoolSpec,
    ScaleIn,
    Size,
    Timeouts,
    UpdatePolicy,
    UpdateWhen,
)
from vgpumgr.model.pool.turn import (
    Counts,
    Do,
    PoolAction,
    PoolTurn,
    PoolView,
    PoolWarning,
)

__all__ = [
    "DAYS",
    "MAX_DESKTOPS",
    "Ask",
    "Autoheal",
    "Booking",
    "Counts",
    "Desktop",
    "DesktopRecord",
    "DesktopState",
    "Do",
    "Entitlement",
    "Naming",
    "PastSession",
    "Phase",
    "PoolAction",
    "PoolAsk",
    "PoolKind",
    "PoolRecord",
    "PoolSpec",
    "PoolTurn",
    "PoolView",
    "PoolWarning",
    "Rollout",
    "ScaleIn",
    "Schedule",
    "Session",
    "Size",
    "Timeouts",
    "UpdatePolicy",
    "UpdateWhen",
    "overlap",
]
