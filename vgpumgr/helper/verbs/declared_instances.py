"""The verbs for declared GPU instances: those of a layout, which no claim makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vgpumgr.helper import arguments, claims, errors, pci, wanted_state
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import mig_instances, mig_state, nvml_session, vf_files
from vgpumgr.helper.nvidia.mig_state import NvmlInstance
from vgpumgr.helper.nvidia.nvml_session import NvmlSession
from vgpumgr.helper.system import System


def create(call: Call) -> dict[str, Any]:
    """The ``gi_create`` verb: make, or find, and read back. Half of one is undone."""
    address = arguments.pci(call.args, "gpu")
    profile_id = arguments.number(call.args, "profile_id")
    size = arguments.number(call.args, "size")
    start = arguments.optional_number(call.args, "start")
    computes = arguments.numbers(call.args, "compute")
    with nvml_session.session(call.system) as session:
        gpu = session.gpu(address)
        mig_instances.require_mig(session, gpu, address)
        found = None if start is None else mig_state.at(session, gpu, profile_id, start)
        if found:
            made = mig_instances.add_computes(session, found, computes)
        else:
            found = mig_instances.create(session, gpu, profile_id, start, size)
            made = _computes_or_nothing(session, gpu, found, computes)
    return {"id": found.id, "start": found.start, "size": found.size, "compute": made}


def put(system: System, address: str, declared: Sequence[dict[str, Any]]) -> None:
    """Have the instances of a layout's claim. Compute instances that it does not declare stay."""
    with nvml_session.session(system) as session:
        gpu = session.gpu(address)
        mig_instances.require_mig(session, gpu, address)
        for each in declared:
            found = mig_state.at(session, gpu, each["profile_id"], each["start"])
            if found is None:
                place = (each["profile_id"], each["start"], each["size"])
                made = mig_instances.create(session, gpu, *place)
                _computes_or_nothing(session, gpu, made, each["compute"])
            elif each["compute"]:
                mig_instances.add_computes(session, found, each["compute"])


def destroy(call: Call) -> dict[str, Any]:
    """The ``gi_destroy`` verb; an absent one is no error."""
    address = arguments.pci(call.args, "gpu")
    number = arguments.number(call.args, "id")
    profile_id = arguments.number(call.args, "profile_id")
    start = arguments.number(call.args, "start")
    with nvml_session.session(call.system) as session:
        gpu = session.gpu(address)
        found = mig_state.by_id(session, gpu, number)
        if found is None:
            return {}
        if (found.profile_id, found.start) != (profile_id, start):
            why = f"asked for profile {profile_id} at {start}, there is {found}"
            raise HelperError(errors.REFUSED, f"instance {number} is another one", why)
        _require_unused(call.system, address, found)
        mig_instances.destroy(session, gpu, found)
    return {}


def _computes_or_nothing(
    session: NvmlSession, gpu: Any, made: NvmlInstance, computes: Sequence[int]
) -> list[int]:
    try:
        return mig_instances.add_computes(session, made, computes)
    except HelperError:
        mig_instances.destroy(session, gpu, made)
        raise


def _require_unused(system: System, address: str, instance: NvmlInstance) -> None:
    """A vGPU on it, or one that a claim wants on it: NVML would say IN_USE for the first alone."""
    vfs = pci.vfs(system, address)
    users = [vf for vf in vfs if vf_files.instance(system, vf) == instance.id]
    for unit in claims.units(system):
        claim = claims.load(system, unit)
        wants = wanted_state.instance(claim["wanted"]) if claim else None
        place = (address, instance.profile_id, instance.start)
        if wants and (wants["gpu"], wants["profile_id"], wants["start"]) == place:
            users.append(f"the claim {unit}")
    if users:
        raise HelperError(errors.IN_USE, f"{instance} is in use", ", ".join(users), "EBUSY")
