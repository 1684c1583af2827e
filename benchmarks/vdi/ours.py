"""The product's own pool controller at work; only clock and hosts are simulated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from benchmarks.vdi.estate import FENCED_S, GONE_S, Clock, Hosts
from benchmarks.vdi.figures import Figures
from benchmarks.vdi.scene import BAD
from vgpumgr.engine.desktops.pool_decision import AssignmentRefusal, assign, decide_pool
from vgpumgr.model.desktop import (
    Desktop,
    DesktopRequest,
    DesktopSession,
    DesktopState,
    DesktopVerb,
    PoolAction,
    PoolView,
    Rollout,
)
from vgpumgr.model.pool import PoolSpec

_TURN_S, _IDLE_TURN_S = 10.0, 60.0
_ENDS = {DesktopVerb.DELETE, DesktopVerb.SHELVE, DesktopVerb.RECREATE}


@dataclass
class _Pool:
    spec: PoolSpec
    desktops: dict[str, Desktop] = field(default_factory=dict)
    asks: dict[str, DesktopRequest] = field(default_factory=dict)
    rollout: Rollout | None = None
    changed: bool = True


class Controller:
    """Turns every ten seconds where something changed, every minute anyway."""

    name = "vgpumgr"

    def __init__(
        self, pools: Iterable[PoolSpec], clock: Clock, hosts: Hosts, figures: Figures
    ) -> None:
        self._pools = {spec.name: _Pool(spec) for spec in pools}
        self._clock, self._hosts, self._figures = clock, hosts, figures
        clock.call(clock.now, self._turns)

    # --- what users do ---

    def ask(self, user: str, pool: str) -> None:
        """See ``Arm``."""
        at, now = self._pools[pool], self._clock.now
        ask = DesktopRequest(user=user, since=now, groups=frozenset({pool}))
        self._figures.asked(user, now)
        found = assign(self._view(at, startable=0), ask)
        if isinstance(found, AssignmentRefusal):
            at.asks[user] = ask
            at.changed = True
            self._note_waiting(at)
        else:
            self._carry_out(at, found)

    def leave(self, user: str, pool: str) -> None:
        """See ``Arm``."""
        at = self._pools[pool]
        if (it := _of(at, user)) and it.session:
            self._set(at, it, session=replace(it.session, disconnected=self._clock.now))

    def log_off(self, user: str, pool: str) -> None:
        """See ``Arm``."""
        at = self._pools[pool]
        if at.asks.pop(user, None):
            self._figures.ended(user, self._clock.now)
        if it := _of(at, user):
            if it.state is not DesktopState.UNKNOWN:
                self._figures.use(-self._hosts.held_units(it.name), self._clock.now)
            self._set(at, it, session=None, since=self._clock.now)

    # --- what happens ---

    def push(self, pool: str) -> None:
        """See ``Arm``."""
        at = self._pools[pool]
        old = at.spec.image
        at.rollout = Rollout(image=f"{pool}@{BAD}", previous=old, since=self._clock.now)
        at.changed = True

    def lose(self, host: str) -> None:
        """See ``Arm``."""
        gone = set(self._hosts.lose(host))
        for at in self._pools.values():
            for it in [each for each in at.desktops.values() if each.name in gone]:
                if it.session:
                    self._figures.use(-self._hosts.held_units(it.name), self._clock.now)
                self._set(at, it, state=DesktopState.UNKNOWN)
        self._clock.call(self._clock.now + FENCED_S, lambda: self._fenced(gone))

    def _fenced(self, gone: set[str]) -> None:
        """The host is proven to be off: sessions there are over, and users ask again."""
        for name, at in self._pools.items():
            for it in [each for each in at.desktops.values() if each.name in gone]:
                self._hosts.leave(it.name)
                self._set(
                    at, it, state=DesktopState.LOST, host="", session=None, since=self._clock.now
                )
                if it.session and it.session.disconnected is None:
                    self.ask(it.session.user, name)

    # --- the controller ---

    def _turns(self) -> None:
        now = self._clock.now
        for at in self._pools.values():
            if at.changed or now % _IDLE_TURN_S < _TURN_S:
                at.changed = False
                found = decide_pool(self._view(at, self._hosts.startable(at.spec.desktop)))
                at.rollout = found.rollout
                for action in found.actions:
                    self._carry_out(at, action)
                self._note_waiting(at)
        self._clock.call(now + _TURN_S, self._turns)

    def _view(self, at: _Pool, startable: int) -> PoolView:
        return PoolView(
            pool=at.spec,
            desktops=tuple(at.desktops.values()),
            now=self._clock.now,
            startable=startable,
            asks=tuple(at.asks.values()),
            rollout=at.rollout,
        )

    def _note_waiting(self, at: _Pool) -> None:
        full = sum(each.runs for each in at.desktops.values()) >= at.spec.size.max
        if at.asks and not full and self._hosts.startable(at.spec.desktop):
            for user in at.asks:
                self._figures.could_start(user)

    def _carry_out(self, at: _Pool, action: PoolAction) -> None:
        it = at.desktops.get(action.desktop)
        assert it == action.seen
        self._figures.taken += action.do in _ENDS and it is not None and it.used
        match action.do:
            case DesktopVerb.CREATE:
                self._begin(at, action, self._hosts.place(action.desktop, at.spec.desktop))
            case DesktopVerb.RECREATE:
                assert it is not None
                host = it.host or self._hosts.place(it.name, at.spec.desktop)
                self._begin(at, action, host)
            case DesktopVerb.DELETE:
                assert it is not None
                self._set(at, it, state=DesktopState.LEAVING, since=self._clock.now)
                self._clock.call(self._clock.now + GONE_S, lambda: self._gone(at, it.name))
            case DesktopVerb.ASSIGN:
                assert it is not None
                self._assign(at, it, action.user)
            case _:
                raise AssertionError(f"no pool of the day asks for {action.do}")

    def _begin(self, at: _Pool, action: PoolAction, host: str) -> None:
        now, image = self._clock.now, action.image
        before = at.desktops.get(action.desktop)
        failures = before.failures if before and before.image == image else 0
        at.desktops[action.desktop] = made = Desktop(
            name=action.desktop, state=DesktopState.CREATING, image=image, since=now, host=host,
            failures=failures,
        )  # fmt: skip
        self._figures.bad += image.endswith(BAD)
        takes, well = self._hosts.takes_s(image)
        self._clock.call(now + takes, lambda: self._up(at, made, well=well and bool(host)))

    def _up(self, at: _Pool, made: Desktop, *, well: bool) -> None:
        if at.desktops.get(made.name) != made:
            return
        state = DesktopState.READY if well else DesktopState.FAILED
        failures = 0 if well else made.failures + 1
        self._set(at, made, state=state, since=self._clock.now, failures=failures)

    def _gone(self, at: _Pool, name: str) -> None:
        self._hosts.leave(name)
        del at.desktops[name]
        at.changed = True

    def _assign(self, at: _Pool, it: Desktop, user: str) -> None:
        now = self._clock.now
        if it.session is None:
            self._figures.use(self._hosts.held_units(it.name), now)
        self._set(at, it, session=DesktopSession(user=user, since=now, active=now), stained=True)
        at.asks.pop(user, None)
        self._figures.ended(user, now)

    def _set(self, at: _Pool, it: Desktop, **changes: object) -> None:
        at.desktops[it.name] = replace(it, **changes)  # type: ignore[arg-type]
        at.changed = True


def _of(at: _Pool, user: str) -> Desktop | None:
    there = (each for each in at.desktops.values() if each.session and each.session.user == user)
    return next(there, None)
