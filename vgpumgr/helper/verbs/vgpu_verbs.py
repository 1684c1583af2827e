"""The verbs for vGPUs under NVIDIA's vendor-specific VFIO framework: a type written to a VF."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, claims, errors, pci, sysfs, wanted_state
from vgpumgr.helper.arguments import Call, Presented
from vgpumgr.helper.devices import viability
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import vf_files, vf_vgpu, vgpu_instance, vgpu_params, vgpu_refusals
from vgpumgr.helper.system import System


def create(call: Call) -> dict[str, Any]:
    """The ``vgpu_create`` verb: claim, instance, type, place, parameters, each read back."""
    system = call.system
    asked = {
        "kind": wanted_state.VGPU,
        "vf": arguments.pci(call.args, "vf"),
        "type": arguments.number(call.args, "type"),
        **wanted_state.vgpu_arguments(call.args),
    }
    if not asked["type"]:
        arguments.bad("type", "0, which is not a type")
    presented = arguments.claim(call.args, "claim")
    vf_vgpu.require_files(system, asked["vf"])
    before = vf_files.current(system, asked["vf"])
    claimed_before = claims.load(system, pci.unit_of(asked["vf"])) is not None
    want = _claimed(call, presented, asked, before)
    try:
        vf_vgpu.make(system, want)
    except HelperError as refused:
        if before == 0 and not claimed_before and refused.code != errors.UNKNOWN:
            with refused.taking_back():
                _forget(system, want)
        raise
    return {"state": "in-state", **seen(system, want["vf"])}


def release(call: Call) -> dict[str, Any]:
    """The ``vgpu_release`` verb: type 0, then the instance made for it, then the claim."""
    system, vf = call.system, arguments.pci(call.args, "vf")
    presented = arguments.claim(call.args, "claim")
    now = vf_files.current(system, vf) if vf_files.has(system, vf) else 0
    held = claims.may_take(call, pci.unit_of(vf), presented)
    if held:
        _require_kind(held, vf)
    if now:
        want = claims.must_hold(call, pci.unit_of(vf), presented)["wanted"]
        if now != want["type"]:
            why = f"the claim says type {want['type']}, it carries {now}"
            raise HelperError(errors.CLAIM_MISMATCH, f"{vf} carries another vGPU", why)
        vf_vgpu.clear(system, vf)
    if held:
        vgpu_instance.let_go(system, pci.unit_of(vf), wanted_state.instance(held["wanted"]))
        claims.drop(system, pci.unit_of(vf))
    return {"type": 0}


def look(call: Call) -> dict[str, Any]:
    """The ``vgpu_look`` verb; ``in_use`` None = we may not ask."""
    return seen(call.system, arguments.pci(call.args, "vf"))


def seen(system: System, vf: str) -> dict[str, Any]:
    """What a VF carries, and its claim; ``type`` is None where it has no ``nvidia/`` files."""
    group = sysfs.iommu_group(system, pci.path(vf))
    found: dict[str, Any] = dict.fromkeys(("type", "instance", "placement_id", "params"))
    if vf_files.has(system, vf):
        found = {
            "type": vf_files.current(system, vf),
            "creatable": vf_files.creatable_if_told(system, vf),
            "instance": vgpu_instance.described(system, vf, vf_files.instance(system, vf)),
            "placement_id": vf_files.placement(system, vf),
            "params": vgpu_params.read(system, vf_files.file(vf, "vgpu_params")),
        }
    return {
        "exists": pci.exists(system, vf),
        "creatable": [],
        **found,
        "iommu_group": group,
        "in_use": sysfs.held_if_told(system, group),
        "claim": claims.load(system, pci.unit_of(vf)),
    }


def _claimed(
    call: Call, presented: Presented, asked: dict[str, Any], before: int
) -> dict[str, Any]:
    """What the claim on the VF says; it is written here unless it was before."""
    system, vf, unit = call.system, asked["vf"], pci.unit_of(asked["vf"])
    held = claims.may_take(call, unit, presented)
    if before not in (0, asked["type"]):
        raise vgpu_refusals.other_type(vf, before)
    if before and not held:
        claims.must_hold(call, unit, presented)
    if held:
        _require_kind(held, vf)
        claims.require_same(held, asked)
        return dict(held["wanted"])
    viability.check_unclaimed(system, unit, (vf,))
    want = {**asked, "instance": vgpu_instance.settle(system, unit, asked["instance"])}
    claims.put(call, unit, presented, want)
    return want


def _forget(system: System, want: dict[str, Any]) -> None:
    """Instance and claim of a vGPU that surely is not there; another's type is left alone."""
    if vf_files.current(system, want["vf"]) != want["type"]:
        vgpu_instance.let_go(system, pci.unit_of(want["vf"]), wanted_state.instance(want))
        claims.drop(system, pci.unit_of(want["vf"]))


def _require_kind(held: claims.Claim, vf: str) -> None:
    if held["wanted"]["kind"] != wanted_state.VGPU:
        why = f"the claim is of kind {held['wanted']['kind']}"
        raise HelperError(errors.CLAIM_MISMATCH, f"{vf} is claimed as something else", why)
