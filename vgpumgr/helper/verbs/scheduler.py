"""The verb for the policy by which vGPUs share a GPU's time."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments
from vgpumgr.helper.call import Call
from vgpumgr.helper.nvidia import nvml, scheduler


def set_policy(call: Call) -> dict[str, Any]:
    """The ``scheduler_set`` verb: set, and read back."""
    address = arguments.pci(call.args, "gpu")
    policy = arguments.choice(call.args, "policy", scheduler.POLICIES)
    with nvml.session(call.system) as session:
        scheduler.put(session, session.gpu(address), address, policy)
    return {"policy": policy}
