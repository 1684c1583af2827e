"""The verb for the policy by which vGPUs share a GPU's time."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, layout_args
from vgpumgr.helper.call import Call
from vgpumgr.helper.nvidia import nvml, scheduler
from vgpumgr.helper.system import System


def set_policy(call: Call) -> dict[str, Any]:
    """The ``scheduler_set`` verb: set, and read back."""
    address = arguments.pci(call.args, "gpu")
    policy = arguments.choice(call.args, "policy", layout_args.POLICIES)
    put(call.system, address, policy)
    return {"policy": policy}


def put(system: System, address: str, policy: str) -> None:
    """Have this policy, and read it back."""
    with nvml.session(system) as session:
        scheduler.put(session, session.gpu(address), address, policy)
