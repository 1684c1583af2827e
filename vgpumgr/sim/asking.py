"""Asking the process that is the simulated fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vgpumgr.hosts.runner import CallCut
from vgpumgr.model.errors import HostUnreachable, OutcomeUnknown
from vgpumgr.sim.server import SIM
from vgpumgr.sim.transport.channel import Channel

ASK_S = 10.0


def ask(state: Path) -> dict[str, Any] | None:
    """What is up now; None where nothing is."""
    try:
        found: dict[str, Any] = call(state, "", "status", {})
    except HostUnreachable:
        return None
    return found


def call(state: Path, host: str, method: str, args: dict[str, Any]) -> Any:
    """One call; HostUnreachable where nothing is up, OutcomeUnknown where it was cut."""
    channel = Channel(state, ASK_S)
    try:
        return channel.call(host, SIM, method, args)
    except CallCut as cut:
        kind = OutcomeUnknown if cut.timed_out else HostUnreachable
        raise kind(
            "the simulated fleet does not answer", why=cut.why, next="vgpumgr sim status"
        ) from cut
    finally:
        channel.close()
