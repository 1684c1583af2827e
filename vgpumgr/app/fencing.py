"""Whether a host is off: asked of its ``fence:`` block, or taken on somebody's word."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vgpumgr.app.program import Ran, run
from vgpumgr.model.errors import NotPermitted
from vgpumgr.model.fence import Fence, Proof, says_off
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Clock

Run = Callable[[Sequence[str], float], Ran]

# A BMC answers within seconds; a machine that is told to power off takes some more.
OFF_S = 60.0
STATUS_S = 20.0
UNTIL_OFF_S = 120.0
POLL_S = 1.0


class Fences:
    """``ports.Fencing``. What was confirmed holds for this process alone."""

    def __init__(self, clock: Clock, run: Run = run) -> None:
        self._clock = clock
        self._run = run
        self._confirmed: dict[str, Proof] = {}

    def confirm(self, host: str, by: str) -> None:
        """Somebody says that it is off and does not boot by itself, having typed its name."""
        self._confirmed[host] = Proof(host=host, how=f"{by} confirms it (--confirm-off)")

    def status(self, fence: Fence) -> Ran:
        """What ``status`` says now."""
        return self._run(fence.status, STATUS_S)

    def proof(self, host: HostRecord) -> Proof | None:
        """Somebody's word, or ``off`` from its ``status``; anything else proves nothing."""
        if host.name in self._confirmed:
            return self._confirmed[host.name]
        if host.fence is None:
            return None
        ran = self.status(host.fence)
        return _proof(host.name, ran) if says_off(ran.code, ran.out) else None

    def switch_off(self, host: HostRecord) -> Proof:
        """Run ``off``, and ask until ``status`` says off; NotPermitted when it does not in time.

        How ``off`` itself ends proves nothing: some end well too early, some fail on a host that
        is off.
        """
        if host.name in self._confirmed:
            return self._confirmed[host.name]
        if host.fence is None:
            raise _unproven(host.name)
        off = self._run(host.fence.off, OFF_S)
        deadline = self._clock.monotonic() + UNTIL_OFF_S
        while not says_off((ran := self.status(host.fence)).code, ran.out):
            if self._clock.monotonic() >= deadline:
                raise _still_on(host.name, off, ran)
            self._clock.wait(POLL_S)
        return _proof(host.name, ran)


def _proof(host: str, ran: Ran) -> Proof:
    return Proof(host=host, how=f"its fence status says {words(ran)}")


def words(ran: Ran) -> str:
    """What a program said, in one line: all of it, for all of it counts."""
    out = ran.out.strip()
    said = repr(out[:200]) if out else "nothing"
    if ran.code is None:
        return f"nothing: {ran.why}"
    return said if ran.code == 0 else f"{said} (exit {ran.code}{f', {ran.why}' if ran.why else ''})"


def _unproven(host: str) -> NotPermitted:
    return NotPermitted(
        f"{host} is not proven to be off",
        why="it has no fence block; a VM that is still running there would run twice",
        next=f"vgpumgr host fence {host} --off '[…]' --status '[…]', or switch it off by hand "
        f"and: vgpumgr host evacuate {host} --confirm-off",
    )


def _still_on(host: str, off: Ran, status: Ran) -> NotPermitted:
    return NotPermitted(
        f"{host} is not proven to be off",
        why=f"status says {words(status)}; off said {words(off)}",
        next=f"vgpumgr host fence {host} --check; or switch it off by hand and: "
        f"vgpumgr host evacuate {host} --confirm-off",
    )
