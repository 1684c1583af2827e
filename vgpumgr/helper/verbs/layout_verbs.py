"""A GPU's layout on its host: claimed before the first change, replayed after every boot."""

from __future__ import annotations

import contextlib
from typing import Any

from vgpumgr.helper import arguments, claims, errors, layout_claims, pci, wanted_state
from vgpumgr.helper.arguments import Call, Presented
from vgpumgr.helper.claims import Claim
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import (
    declared_instances,
    mig_mode_verbs,
    power_verbs,
    vgpu_sharing,
    virtual_functions,
)

_NVIDIA = "nvidia"


def claim(call: Call) -> dict[str, Any]:
    """The ``layout_claim`` verb: a newer layout of ours takes the place of an older one."""
    system, gpu = call.system, arguments.pci(call.args, "gpu")
    want = {"kind": wanted_state.LAYOUT, "gpu": gpu, **wanted_state.layout_arguments(call.args)}
    presented = arguments.claim(call.args, "claim")
    held = layout_claims.ours(call)
    if held:
        _require_not_newer(call, held, presented)
    _require_there(system, gpu)
    claims.put(call, layout_claims.unit_of(gpu), presented, want)
    _drop_former_places(call, gpu, presented)
    return {"claim": claims.load(system, layout_claims.unit_of(gpu))}


def forget(call: Call) -> dict[str, Any]:
    """The ``layout_forget`` verb: the GPU stays as it is until the next boot."""
    gpu, presented = arguments.pci(call.args, "gpu"), arguments.claim(call.args, "claim")
    claims.may_take(call, layout_claims.unit_of(gpu), presented)
    claims.drop(call.system, layout_claims.unit_of(gpu))
    return {}


def make(system: System, want: dict[str, Any]) -> None:
    """Every part that a claim declares, in the order of a boot; what is there is not touched."""
    gpu = want["gpu"]
    _require_there(system, gpu)
    if pci.driver(system, gpu) != _NVIDIA:
        _require_no_modes(system, want)
        _vfs(system, want)
        return
    if want.get("mig") or ("mig" in want and mig_mode_verbs.has(system, gpu)):
        mig_mode_verbs.put(system, gpu, enabled=want["mig"])
    _vfs(system, want)
    if want.get("mixed_size") is False and vgpu_sharing.is_mixed_size(system, gpu):
        vgpu_sharing.put_mixed_size(system, gpu, enabled=False)
    if "scheduler" in want:
        vgpu_sharing.put_policy(system, gpu, want["scheduler"], want.get("scheduler_timing"))
    if want.get("mixed_size"):
        vgpu_sharing.put_mixed_size(system, gpu, enabled=True)
    if want.get("instances"):
        declared_instances.put(system, gpu, want["instances"])
    _power(system, want)


def bring_power_back(system: System, gpu: str) -> None:
    """Limit and clocks that the GPU's layout declares, once its driver has it again; a refusal
    shows as a difference from the layout.
    """
    with contextlib.suppress(HelperError, OSError):
        held = claims.load(system, layout_claims.unit_of(gpu))
        if held is not None and pci.driver(system, gpu) == _NVIDIA:
            _power(system, held["wanted"])


def _power(system: System, want: dict[str, Any]) -> None:
    if "locked_clocks" in want:
        power_verbs.put_clocks(system, want["gpu"], want["locked_clocks"])
    if "power_limit" in want:
        power_verbs.put_limit(system, want["gpu"], want["power_limit"])


def _require_there(system: System, gpu: str) -> None:
    if not pci.exists(system, gpu):
        raise HelperError(errors.NOT_FOUND, f"no PCI function {gpu}", "not on the bus")
    pci.require_gpu(system, gpu)


def _vfs(system: System, want: dict[str, Any]) -> None:
    """None on a function that cannot have any is as declared."""
    if want.get("vfs") or ("vfs" in want and pci.vf_count(system, want["gpu"])):
        virtual_functions.put(system, want["gpu"], want["vfs"])


def _require_no_modes(system: System, want: dict[str, Any]) -> None:
    """A GPU given whole, and one of another vendor: what is declared as off is off."""
    gpu, driver = want["gpu"], pci.driver(system, want["gpu"])
    due = [name for name in ("mig", "mixed_size", "instances") if want.get(name)]
    if due or driver is None:
        why = f"{gpu} is on {driver or 'no driver'}"
        raise HelperError(errors.REFUSED, f"{gpu} cannot be partitioned", why)


def _require_not_newer(call: Call, held: Claim, presented: Presented) -> None:
    """Generations are those of one GPU: another one in its slot has a layout of its own."""
    there = (held["epoch"], held["generation"])
    if held["allocation"] == presented.allocation and there > (call.epoch, presented.generation):
        raise HelperError(
            errors.CLAIM_MISMATCH,
            f"a newer layout was applied to {call.args['gpu']}",
            f"epoch and generation there {there}, asked {(call.epoch, presented.generation)}",
        )


def _drop_former_places(call: Call, gpu: str, presented: Presented) -> None:
    """A GPU that moved to another slot leaves no layout behind for the next card there."""
    for unit, found, _ in claims.every(call.system):
        if found is None or not layout_claims.is_layout(found):
            continue
        same = (found["fleet"], found["allocation"]) == (call.fleet, presented.allocation)
        if same and unit != layout_claims.unit_of(gpu):
            claims.drop(call.system, unit)
