"""The last look at a host, which all that is shown of it comes from."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from vgpumgr.endpoints.shapes import Time

if TYPE_CHECKING:
    from vgpumgr.model.host import HostRecord

# A look that is so old, in seconds, says little of now.
STALE_S = 600.0
UNREACHABLE = "unreachable"


class Look(TypedDict):
    """The last look at a host: when it was (``seen_s`` ago), and whether it says much of now."""

    observed_at: Time | None
    seen_s: float | None
    stale: bool
    stale_why: str


def observed_states(hosts: Iterable[HostRecord]) -> dict[tuple[str, str], str]:
    """Power state per (host, domain name), as last seen."""
    return {
        (host.name, domain.name): str(domain.state)
        for host in hosts
        if host.facts
        for domain in host.facts.domains
    }


def look_item(host: HostRecord | None) -> Look:
    """The JSON of the last look at a host, which all that is shown of it comes from: when it was
    (Unix seconds, and ``seen_s`` ago; None for never), and whether that says much of now.

    ``stale``: a later look failed, or it is ten minutes old; ``stale_why`` says which.
    """
    at = host.observed_at if host else None
    seen_s = None if at is None else round(max(0.0, time.time() - at), 1)
    why = _stale_why(host, seen_s)
    return {"observed_at": at, "seen_s": seen_s, "stale": bool(why), "stale_why": why}


def _stale_why(host: HostRecord | None, seen_s: float | None) -> str:
    if host is None or seen_s is None:
        return "never seen"
    if host.last_error:
        return UNREACHABLE
    return "not looked at since" if seen_s >= STALE_S else ""


def answers(look: Mapping[str, Any]) -> bool:
    """Did the host answer when it was last asked? Else what it was seen to do is not known now."""
    return look["observed_at"] is not None and look["stale_why"] != UNREACHABLE
