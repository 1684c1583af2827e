"""A libvirt connection under deadlines, reopened after a break."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from vgpumgr import virt
from vgpumgr.hosts.deadlines import DEADLINES, Deadline
from vgpumgr.hosts.libvirt.libvirt_bridge import LibvirtBridge
from vgpumgr.model.errors import (
    DeadlineExceeded,
    HostUnreachable,
    NotPermitted,
    OutcomeUnknown,
    VgpumgrError,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HeldLink:
    """A connection in somebody's hand, and what makes every call on it return at once."""

    libvirt: virt.Libvirt
    cut: Callable[[], None]


class LibvirtLink:
    """One connection to one host's libvirt; calls on it run one after another.

    ``open_bridge`` raises HostUnreachable or NotPermitted. Times are seconds. ``changes`` counts
    the beginnings and ends of changes.
    """

    def __init__(
        self,
        host: str,
        open_bridge: Callable[[], LibvirtBridge],
        *,
        connect_s: float,
        call_s: float,
    ) -> None:
        self.host = host
        self.call_s = call_s
        self._open_bridge = open_bridge
        self._connect_s = connect_s
        self.changes = 0
        self._closed = False
        self._lock = threading.Lock()
        self._bridge: LibvirtBridge | None = None
        self._libvirt: virt.Libvirt | None = None

    def read(self, use: Callable[[virt.Libvirt], T]) -> T:
        """A look. Tried once more when the daemon went away; DeadlineExceeded when it hangs."""
        with self._lock:
            libvirt, bridge = self._ready()
            try:
                return self._within(bridge, lambda: use(libvirt), DeadlineExceeded)
            except HostUnreachable:
                self._drop()
                again, bridge = self._ready()
                return self._within(bridge, lambda: use(again), DeadlineExceeded)

    def change(self, use: Callable[[virt.Libvirt], T]) -> T:
        """A change. OutcomeUnknown when it was aborted: it may or may not have happened."""
        with self._changing():
            libvirt, bridge = self._ready()
            return self._within(bridge, lambda: use(libvirt), OutcomeUnknown)

    def long_change(self, use: Callable[[virt.Libvirt, Callable[[], None]], T]) -> T:
        """A change that takes as long as it moves: it calls what it is given whenever it does."""
        with self._changing():
            libvirt, bridge = self._ready()
            return self._moving(bridge, lambda moved: use(libvirt, moved), OutcomeUnknown)

    @contextmanager
    def held(self) -> Iterator[HeldLink]:
        """The connection for a job of more than one host: nobody else uses it meanwhile.

        Links of several hosts are held in the order of their hosts' names.
        """
        with self._changing():
            libvirt, bridge = self._ready()
            yield HeldLink(libvirt, bridge.cut)

    def close(self) -> None:
        """Drop the connection for good; a call that is under way is cut."""
        self._closed = True
        if (bridge := self._bridge) is not None:
            bridge.cut()
        with self._lock:
            self._drop()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            self.changes += 1
            try:
                yield
            finally:
                self.changes += 1

    def _drop(self) -> None:
        bridge, self._bridge = self._bridge, None
        libvirt, self._libvirt = self._libvirt, None
        if bridge is not None:
            # First: saying goodbye to a daemon that hangs would hang, too.
            bridge.cut()
        if libvirt is not None:
            libvirt.close()

    def _within(self, bridge: LibvirtBridge, call: Callable[[], T], late: type[VgpumgrError]) -> T:
        """Run ``call`` under the deadline; when it was cut, raise ``late``."""
        return self._moving(bridge, lambda _: call(), late)

    def _moving(
        self,
        bridge: LibvirtBridge,
        call: Callable[[Callable[[], None]], T],
        late: type[VgpumgrError],
    ) -> T:
        """The same for a call that puts the deadline off by what it is given."""
        with DEADLINES.within(self.call_s, bridge.cut) as deadline:
            try:
                return call(deadline.moved)
            except VgpumgrError as error:
                if not deadline.fired:
                    raise
                raise late(
                    f"{error.message} on {self.host}",
                    why=f"libvirt did not answer within {self.call_s:g} "
                    "s, and the call was aborted",
                    next=self._advice(),
                ) from error

    def _ready(self) -> tuple[virt.Libvirt, LibvirtBridge]:
        """A connection that is open as far as we know."""
        if self._libvirt is None or self._bridge is None or not self._bridge.alive:
            self._drop()
            try:
                self._connect()
            except HostUnreachable:
                if self._bridge is None:
                    raise  # not even the host was reached
                # libvirtd exits when idle and is started by its socket: a call can fall between.
                self._connect()
        assert self._libvirt is not None
        assert self._bridge is not None
        return self._libvirt, self._bridge

    def _connect(self) -> None:
        self._bridge = None
        if self._closed:
            raise HostUnreachable(f"the connection to {self.host} was closed")
        bridge = self._bridge = self._open_bridge()
        with DEADLINES.within(self._connect_s, bridge.cut) as deadline:
            try:
                self._libvirt = virt.open_uri(bridge.uri)
            except (HostUnreachable, NotPermitted) as error:
                bridge.cut()
                raise self._refusal(error, bridge, deadline) from error

    def _refusal(
        self, error: VgpumgrError, bridge: LibvirtBridge, deadline: Deadline
    ) -> VgpumgrError:
        why = bridge.complaint or error.why
        if isinstance(error, NotPermitted) or "Permission denied" in why:
            return not_let_in(self.host, why)
        if deadline.fired:
            return DeadlineExceeded(
                f"libvirt on {self.host} does not answer",
                why=f"not connected within {self._connect_s:g} s",
                next=self._advice(),
            )
        return HostUnreachable(
            f"libvirt on {self.host} cannot be reached",
            why=why,
            next=self._advice(),
        )

    def _advice(self) -> str:
        return f"on {self.host}: systemctl status libvirtd"


def not_let_in(host: str, why: str) -> NotPermitted:
    """libvirt's socket is for root and the group libvirt, as packaged."""
    return NotPermitted(
        f"libvirt on {host} denies access",
        why=why,
        next=f"on {host}, as root: usermod -aG libvirt USER, then log in again",
    )
