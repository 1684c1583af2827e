"""One vGPU on a VF: its instance, type, place and parameters made and read back, and cleared."""

from __future__ import annotations

import errno
from typing import Any

from vgpumgr.helper import errors, pci, sysfs, wanted_state
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import vf_files, vgpu_instance, vgpu_params, vgpu_refusals
from vgpumgr.helper.system import System

# Writing 0 says EBUSY until the vGPU's plugin has ended; Proxmox polls as long.
_END_SECONDS, _END_PAUSE = 10.0, 0.5
_READ_BACK_SECONDS = 5.0


def require_files(system: System, vf: str) -> None:
    """Refuse where there is no VF, or none that takes types."""
    if not pci.exists(system, vf):
        why = "its VFs are off: turn them on by a Layout"
        raise HelperError(errors.NOT_FOUND, f"no virtual function {vf}", why)
    if not vf_files.has(system, vf):
        why = f"it has no nvidia/current_vgpu_type; its driver is {pci.driver(system, vf)}"
        raise HelperError(errors.NOT_FOUND, f"{vf} takes no vGPU types", why)


def make(system: System, want: dict[str, Any]) -> None:
    """Everything a claim says, unless it is there; each part is read back.

    A vGPU made here that is not in the wanted state is cleared again; one that was there is left.
    """
    vf, kind = want["vf"], want["type"]
    require_files(system, vf)
    instance = vgpu_instance.hold(system, wanted_state.instance(want))
    now = vf_files.current(system, vf)
    if now not in (0, kind):
        raise vgpu_refusals.other_type(vf, now)
    if now == 0:
        _write_type(system, vf, kind)
    try:
        vgpu_instance.require(vf_files.instance(system, vf), instance)
        _put_at(system, vf, want.get("placement_id"))
        vgpu_params.put(system, vf_files.file(vf, "vgpu_params"), want.get("params") or {})
    except HelperError as refused:
        if now == 0:
            with refused.taking_back():
                clear(system, vf)
        raise


def clear(system: System, vf: str) -> None:
    """Write 0 until it reads 0; ``in-use`` while a guest has it open."""
    group = sysfs.iommu_group(system, pci.path(vf))
    if sysfs.held(system, group):
        raise vgpu_refusals.open_in_guest(vf, f"/dev/vfio/{group} is open", errno.EBUSY)
    if not sysfs.wait_until(system, lambda: _cleared(system, vf), _END_SECONDS, _END_PAUSE):
        why = f"it still carries type {vf_files.current(system, vf)} {_END_SECONDS:.0f} s later"
        raise vgpu_refusals.open_in_guest(vf, why, errno.EBUSY)


def _write_type(system: System, vf: str, kind: int) -> None:
    vgpu_refusals.check_creatable(system, vf, kind)
    try:
        system.write(vf_files.file(vf, "current_vgpu_type"), str(kind))
    except OSError as error:
        raise vgpu_refusals.of_type(system, vf, kind, error) from error
    if not sysfs.wait_until(
        system, lambda: vf_files.current(system, vf) == kind, _READ_BACK_SECONDS
    ):
        why = f"it reads {vf_files.current(system, vf)} afterwards"
        raise HelperError(errors.REFUSED, f"{vf} did not take type {kind}", why)


def _put_at(system: System, vf: str, placement: int | None) -> None:
    there = vf_files.placement(system, vf)
    if placement is None or there == placement:
        return
    message = f"the vGPU on {vf} was not placed at {placement}"
    try:
        system.write(vf_files.file(vf, "placement_id"), str(placement))
    except OSError as error:
        refusal = errors.from_effect(error, message)
        refusal.why = f"{refusal.why}; the driver put it at {there}"
        raise refusal from error
    found = vf_files.placement(system, vf)
    if found != placement:
        raise HelperError(errors.REFUSED, message, f"asked for {placement}, it is at {found}")


def _cleared(system: System, vf: str) -> bool:
    """One attempt. EPERM: a guest has it open, or there is nothing to clear."""
    if vf_files.current(system, vf) == 0:
        return True
    try:
        system.write(vf_files.file(vf, "current_vgpu_type"), "0")
    except OSError as error:
        if vf_files.current(system, vf) == 0:
            return True
        if error.errno == errno.EPERM:
            raise vgpu_refusals.open_in_guest(vf, errors.reason(error), errno.EPERM) from error
        if error.errno != errno.EBUSY:
            raise errors.from_effect(error, f"the vGPU on {vf} was not destroyed") from error
    return vf_files.current(system, vf) == 0
