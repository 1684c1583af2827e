"""A GPU's power limit and the lock of its clocks. Neither survives a reboot or a rebind.

NVML tells the enforced limit, and of locked clocks nothing: what we locked is noted below /run,
which a reboot empties, and forgotten with every rebind or reset of ours. Source: nvml.h.
"""

from __future__ import annotations

import json
from typing import Any

from vgpumgr.helper import claims, errors, sysfs
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia.nvml_session import NvmlSession
from vgpumgr.helper.system import System

NOTES = "/run/vgpumgr/clocks"
_MILLI = 1000


def facts(system: System, session: NvmlSession, gpu: Any, address: str) -> dict[str, Any] | None:
    """Whole watts (bounds within the driver's) and the clocks' range; None where not told."""
    bounds = session.ask("nvmlDeviceGetPowerManagementLimitConstraints", gpu)
    default = session.ask("nvmlDeviceGetPowerManagementDefaultLimit", gpu)
    enforced = session.ask("nvmlDeviceGetEnforcedPowerLimit", gpu)
    if bounds is None or default is None or enforced is None:
        return None
    return {
        "limit_w": int(enforced) // _MILLI,
        "default_w": int(default) // _MILLI,
        "least_w": -(-int(bounds[0]) // _MILLI),
        "most_w": int(bounds[1]) // _MILLI,
        "locked_clocks": _noted(system, address),
    }


def put_limit(session: NvmlSession, gpu: Any, address: str, watts: int) -> None:
    """Have this limit (0: the board's default) enforced; refused outside the board's bounds."""
    message = f"the power limit of {address} was not set"
    if not watts:
        asked = "nvmlDeviceGetPowerManagementDefaultLimit"
        watts = int(session.must(message, asked, gpu)) // _MILLI
    least, most = session.must(message, "nvmlDeviceGetPowerManagementLimitConstraints", gpu)
    if not least <= watts * _MILLI <= most:
        why = f"it takes {-(-int(least) // _MILLI)} to {int(most) // _MILLI} W"
        raise HelperError(errors.REFUSED, f"{watts} W is no power limit of {address}", why)
    if _enforced(session, gpu, message) == watts:
        return
    _stay_loaded(session, gpu)
    session.must(message, "nvmlDeviceSetPowerManagementLimit", gpu, watts * _MILLI)
    found = _enforced(session, gpu, message)
    if found != watts:
        raise HelperError(errors.REFUSED, message, f"{found} W are enforced afterwards")


def lock_clocks(
    system: System, session: NvmlSession, gpu: Any, address: str, wanted: list[int]
) -> None:
    """Lock the clocks to [least, most] MHz, or unlock them ([]); the note follows the effect."""
    message = f"the clocks of {address} were not {'locked' if wanted else 'unlocked'}"
    if wanted:
        _stay_loaded(session, gpu)
        session.must(message, "nvmlDeviceSetGpuLockedClocks", gpu, *wanted)
        claims.store_state(system, f"{NOTES}/{address}", json.dumps(wanted))
        return
    session.must(message, "nvmlDeviceResetGpuLockedClocks", gpu)
    forget(system, address)


def forget(system: System, address: str) -> None:
    """The driver has let go of the GPU: its clocks are locked no more."""
    if system.exists(f"{NOTES}/{address}"):
        claims.remove_state(system, f"{NOTES}/{address}")


def _enforced(session: NvmlSession, gpu: Any, message: str) -> int:
    return int(session.must(message, "nvmlDeviceGetEnforcedPowerLimit", gpu)) // _MILLI


def _stay_loaded(session: NvmlSession, gpu: Any) -> None:
    """Without persistence mode an idle driver unloads and forgets; a board may not have it."""
    session.ask("nvmlDeviceSetPersistenceMode", gpu, 1)


def _noted(system: System, address: str) -> list[int]:
    text = sysfs.optional_text(system, f"{NOTES}/{address}")
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return []
    pair = isinstance(found, list) and len(found) == 2
    return found if pair and all(type(each) is int and each >= 0 for each in found) else []
