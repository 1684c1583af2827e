"""What may strike a command: at its n-th call to a host, or at its n-th durable write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.property.test_engine_kill_points import Killed
from vgpumgr.hosts.program_runner import CallCut
from vgpumgr.model.errors import HostRefused

__all__ = ["Door", "Killed", "Kind", "Strike"]


class Kind(StrEnum):
    """What happens."""

    DIES_WRITING = "the process dies at a write"
    DIES = "the process dies at a host call"
    STOP = "Ctrl-C"
    CUT = "the connection is cut"
    REFUSED = "the host refuses"
    POWER = "the host loses power"


@dataclass(frozen=True)
class Strike:
    """``kind`` at the n-th call or write, before its effect or after it."""

    kind: Kind
    at: int
    after: bool


class Door:
    """Every call to a simulated host goes through it; one strike at a time is armed."""

    def __init__(
        self, call: Callable[..., Any], stop: Callable[[], None], power: Callable[[str], None]
    ) -> None:
        self._call = call
        self._stop = stop
        self._power = power
        self._armed: Strike | None = None
        self._left = 0

    def arm(self, strike: Strike | None) -> None:
        """Nothing is armed with None, or with a strike that is about the ledger."""
        on_calls = strike is not None and strike.kind is not Kind.DIES_WRITING
        self._armed = strike if on_calls else None
        self._left = strike.at if strike else 0

    def __call__(self, name: str, target: str, method: str, arguments: Mapping[str, Any]) -> Any:
        self._left -= 1
        strike = self._armed if self._left == 0 else None
        if strike is None:
            return self._call(name, target, method, arguments)
        if strike.kind is Kind.REFUSED:
            return _refuse(target, method)
        if not strike.after:
            self._strike(strike, name)
        answer = self._call(name, target, method, arguments)
        if strike.after:
            self._strike(strike, name)
        return answer

    def _strike(self, strike: Strike, host: str) -> None:
        match strike.kind:
            case Kind.DIES:
                raise Killed
            case Kind.STOP:
                self._stop()
            case Kind.POWER:
                self._power(host)
                raise CallCut("connection reset by peer")
            case _:
                raise CallCut("connection reset by peer")


def _refuse(target: str, method: str) -> str:
    """As the helper says it, or as libvirt does."""
    if target != "helper":
        raise HostRefused(f"{target} {method} was refused", why="struck", errno_name="EIO")
    error = {"code": "refused", "message": "refused", "why": "struck", "errno": "EIO"}
    return json.dumps({"ok": False, "error": error})
