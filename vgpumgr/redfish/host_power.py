"""The power of a host by its BMC: asked, switched off, and read back that it is off."""

from __future__ import annotations

import time
from collections.abc import Callable

from vgpumgr.model.errors import DeadlineExceeded, OutcomeUnknown, UsageError
from vgpumgr.redfish.redfish_client import ROOT, RedfishClient, Resource

POLL_S = 1.0
_STATES = ("On", "Off", "PoweringOn", "PoweringOff", "Paused")


def power_state(client: RedfishClient, system: str = "") -> str:
    """``On``, ``Off``, …; OutcomeUnknown for any other word."""
    told = _system(client, system).get("PowerState")
    if told not in _STATES:
        raise OutcomeUnknown("the BMC does not say whether the host is on", why=repr(told)[:80])
    return str(told)


def switch_off(
    client: RedfishClient,
    system: str = "",
    *,
    within_s: float = 60.0,
    wait: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Cut its power, and wait until it reads off; DeadlineExceeded where it does not."""
    found = _system(client, system)
    if power_state(client, system) != "Off":
        client.post(_reset_target(found), {"ResetType": "ForceOff"})
    until = now() + within_s
    while power_state(client, system) != "Off":
        if now() >= until:
            raise DeadlineExceeded(
                "the BMC took the order, and the host is not off", why=f"after {within_s:g} s"
            )
        wait(POLL_S)


def _system(client: RedfishClient, name: str) -> Resource:
    """The one system of a BMC, or the one of that id."""
    listed = client.get(f"{ROOT}/Systems").get("Members")
    paths = [
        path
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict) and isinstance(path := each.get("@odata.id"), str)
    ]
    if name:
        paths = [path for path in paths if path.rstrip("/").rpartition("/")[2] == name]
    if len(paths) != 1:
        known = ", ".join(path.rpartition("/")[2][:64] for path in paths[:8]) or "none"
        raise UsageError(
            f"the BMC has {len(paths)} systems of which one is to be named",
            why=f"systems: {known}",
            next="--system ID",
        )
    return client.get(paths[0])


def _reset_target(system: Resource) -> str:
    actions = system.get("Actions")
    reset = actions.get("#ComputerSystem.Reset") if isinstance(actions, dict) else None
    target = reset.get("target") if isinstance(reset, dict) else None
    if not isinstance(target, str):
        raise OutcomeUnknown("the BMC tells no way to reset the host")
    return target
