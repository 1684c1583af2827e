"""When sessions of a pool end by themselves, so that their users are told before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.model.desktop import DesktopRecord, PoolRecord, Rollout, RolloutPhase
from vgpumgr.model.pool import UpdateWhen

IMAGE_NOTICE_S = 600.0
"""Users who are logged off for a new image keep their desktops so long after it was pushed."""


class EndReason(StrEnum):
    """Why a session ends: its desktop is taken away, or it is not used; or now: its VM is stopped,
    or the session alone is ended.
    """

    TAKEN = "taken"
    IDLE = "idle"
    NOW = "now"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """A session that ends at ``at`` (Unix seconds) on a desktop; ``left_s`` is the time for which
    its user is told.
    """

    row: DesktopRecord
    user: str
    at: float
    left_s: float
    reason: EndReason = EndReason.TAKEN

    @property
    def key(self) -> tuple[str, float, float, float]:
        """It is told once."""
        session = self.row.desktop.session
        return self.row.vm_id, session.since if session else 0.0, self.at, self.left_s


def image_logoff_at(rollout: Rollout) -> float:
    """From when on users are logged off for the image, where the pool does that."""
    return rollout.since + IMAGE_NOTICE_S


def session_ends(
    pool: PoolRecord, rows: Iterable[DesktopRecord], now: float, before_s: tuple[float, ...]
) -> Iterator[SessionEnd]:
    """The sessions of a pool that end soon, where it is time to tell their users: each of
    ``before_s`` (the longest first) is one of the times.
    """
    for row in rows:
        session = row.desktop.session
        if row.pool != pool.id or session is None or not row.vm_id or not row.desktop.ready:
            continue
        found = _end(pool, row)
        if found is None:
            continue
        at, reason = found
        left = [each for each in before_s if at - now <= each]
        if left and now < at:
            yield SessionEnd(row=row, user=session.user, at=at, left_s=left[-1], reason=reason)


def _end(pool: PoolRecord, row: DesktopRecord) -> tuple[float, EndReason] | None:
    """The first of the ends that its session comes to, unless its user does something."""
    session, limits = row.desktop.session, pool.spec.timeouts
    assert session is not None, "only desktops with users are asked for"
    ends = []
    rollout = pool.rollout
    at_once = pool.spec.update.when is UpdateWhen.AT_ONCE
    rolling = rollout is not None and rollout.phase is RolloutPhase.ROLLING
    if at_once and rolling and rollout is not None and row.desktop.image != rollout.image:
        ends.append((image_logoff_at(rollout), EndReason.TAKEN))
    if session.disconnected is not None:
        if limits.disconnect_s is not None:
            ends.append((session.disconnected + limits.disconnect_s, EndReason.TAKEN))
    elif limits.idle_s is not None and session.watched:
        ends.append((session.active + limits.idle_s, EndReason.IDLE))
    return min(ends, default=None)
