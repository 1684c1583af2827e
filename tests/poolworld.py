"""A pool's desktops in memory: what actions do to them, and what happens to them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

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
from vgpumgr.model.load_scale import LoadWindow
from vgpumgr.model.pool import Entitlement, Naming, PoolKind, PoolSpec, Size
from vgpumgr.model.vm import GpuRequest, VmSpec

OLD, NEW = "cad@1", "cad@2"
NOW = 1_000_000.0
DESKTOP = VmSpec(name="cad", vcpus=4, memory_mib=8192, gpus=(GpuRequest(profile="L40S-8Q"),))
READY, CREATING = DesktopState.READY, DesktopState.CREATING


def pool(least: int = 0, spare: int = 2, most: int = 10, **changes: Any) -> PoolSpec:
    return replace(
        PoolSpec(
            name="cad",
            image=OLD,
            desktop=DESKTOP,
            naming=Naming("cad-", 2),
            size=Size(min=least, spare=spare, max=most),
            entitlement=Entitlement(groups=frozenset({"staff"})),
        ),
        **changes,
    )


def desktop(number: int, state: DesktopState = READY, **changes: Any) -> Desktop:
    made = Desktop(name=f"cad-{number:02d}", state=state, image=OLD, since=NOW - 10_000, host="h1")
    return replace(made, **changes)


def session(user: str, **changes: Any) -> DesktopSession:
    return replace(DesktopSession(user=user, since=NOW - 5000, active=NOW), **changes)


def ask(user: str, *groups: str) -> DesktopRequest:
    return DesktopRequest(user=user, since=NOW, groups=frozenset(groups or ("staff",)))


def view(spec: PoolSpec, *desktops: Desktop, startable: int = 100, **changes: Any) -> PoolView:
    return replace(PoolView(pool=spec, desktops=desktops, now=NOW, startable=startable), **changes)


@dataclass
class World:
    """Desktops by name; an action is carried out only where the desktop is as it was seen."""

    spec: PoolSpec
    room: int = 6
    now: float = NOW
    desktops: dict[str, Desktop] = field(default_factory=dict)
    asks: dict[str, DesktopRequest] = field(default_factory=dict)
    rollout: Rollout | None = None
    draining: dict[str, float | None] = field(default_factory=dict)
    closing: bool = False
    load: LoadWindow | None = None
    expected: int = 0

    def view(self) -> PoolView:
        held = sum(each.state.holds_place and bool(each.host) for each in self.desktops.values())
        return PoolView(
            pool=self.spec,
            desktops=tuple(self.desktops.values()),
            now=self.now,
            startable=max(0, self.room - held),
            asks=tuple(self.asks.values()),
            rollout=self.rollout,
            draining=dict(self.draining),
            closing=self.closing,
            load=self.load,
            expected=self.expected,
        )

    def carry_out(self, action: PoolAction) -> Desktop | None:
        """The desktop that was changed, as it was before; None where nothing was done."""
        before = self.desktops.get(action.desktop)
        if before != action.seen:
            return None
        if before is None:
            self.desktops[action.desktop] = self._made(action)
            return None
        self._change(action, before)
        return before

    def _change(self, action: PoolAction, before: Desktop) -> None:
        name, now = before.name, self.now
        match action.do:
            case DesktopVerb.DELETE | DesktopVerb.SHELVE:
                self.set(name, state=DesktopState.LEAVING, since=now)
            case DesktopVerb.RECREATE:
                made = self._made(action)
                kept = before.failures if before.image == made.image else 0
                self.desktops[name] = replace(made, failures=kept)
            case DesktopVerb.UPDATE:
                self.set(name, state=CREATING, image=action.image, since=now, failures=0)
            case DesktopVerb.HEAL | DesktopVerb.START:
                self.set(name, state=CREATING, since=now, host="h1")
            case DesktopVerb.ASSIGN:
                self._assign(action)
            case DesktopVerb.LOGOFF:
                self.log_off(name)
            case DesktopVerb.DISCONNECT:
                assert before.session is not None
                self.set(name, session=replace(before.session, disconnected=now))

    def _assign(self, action: PoolAction) -> None:
        self.asks.pop(action.user, None)
        owner = action.user if self.spec.kind is PoolKind.DEDICATED else ""
        made = DesktopSession(user=action.user, since=self.now, active=self.now)
        self.set(action.desktop, session=made, owner=owner, stained=True)

    def _made(self, action: PoolAction) -> Desktop:
        return Desktop(
            name=action.desktop, state=CREATING, image=action.image, since=self.now, host="h1"
        )

    def log_off(self, name: str) -> None:
        self.set(name, session=None, since=self.now)

    def set(self, name: str, **changes: Any) -> None:
        self.desktops[name] = replace(self.desktops[name], **changes)
