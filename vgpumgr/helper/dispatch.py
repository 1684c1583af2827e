"""From a request to an answer: checks, lock, epoch, then the verb. It never raises."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vgpumgr.helper import (
    VERSION,
    arguments,
    claims,
    errors,
    fleets,
    layout_claims,
    pci,
    wanted_state,
)
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import (
    adoption,
    boot_restore,
    ceph_images,
    declared_instances,
    disk_images,
    examine,
    fabric_partitions,
    figures,
    fleet_membership,
    gpu_reset,
    kvm,
    layout_verbs,
    mdev_verbs,
    mig_mode_verbs,
    nic_verbs,
    power_verbs,
    probe,
    thin_volumes,
    tpm_state,
    vfio,
    vgpu_sharing,
    vgpu_verbs,
    virtual_functions,
)

LOCK = "/run/vgpumgr/lock"

Answer = dict[str, Any]


@dataclass(frozen=True)
class HelperVerb:
    """``changes`` takes the host's lock and root; ``controlled`` also needs fleet and epoch. A
    ``long`` one lets go of the lock before it begins: what it works on has a lock of its own.
    """

    run: Callable[[Call], Answer]
    takes: tuple[str, ...] = ()
    changes: bool = False
    controlled: bool = False
    long: bool = False


def version(_call: Call) -> Answer:
    """The helper's own version and the Python it runs on."""
    return {"helper": VERSION, "python": platform.python_version()}


def _controlled(run: Callable[[Call], Answer], *takes: str) -> HelperVerb:
    return HelperVerb(run, takes, changes=True, controlled=True)


def _partitioning(run: Callable[[Call], Answer], *takes: str) -> HelperVerb:
    """A change of a GPU's partitioning, of no other device's, never against another's layout."""

    def checked(call: Call) -> Answer:
        layout_claims.ours(call)
        if pci.exists(call.system, call.args["gpu"]):
            pci.require_gpu(call.system, call.args["gpu"])
        return run(call)

    return _controlled(checked, "gpu", *takes)


_GI = ("profile_id", "start")

VERBS = {
    "version": HelperVerb(version),
    "probe": HelperVerb(probe.probe, ("known",)),
    "examine": HelperVerb(examine.examine),
    "figures": HelperVerb(figures.figures),
    "gpu_look": HelperVerb(probe.gpu_look, ("gpu",)),
    "mdev_create": _controlled(
        mdev_verbs.create, "parent", "type", "uuid", "claim", *wanted_state.VGPU_ARGUMENTS
    ),
    "mdev_look": HelperVerb(mdev_verbs.look, ("uuid",)),
    "mdev_remove": _controlled(mdev_verbs.remove, "uuid", "claim"),
    "vgpu_create": _controlled(
        vgpu_verbs.create, "vf", "type", "claim", *wanted_state.VGPU_ARGUMENTS
    ),
    "vgpu_look": HelperVerb(vgpu_verbs.look, ("vf",)),
    "vgpu_release": _controlled(vgpu_verbs.release, "vf", "claim"),
    "vfio_bind": _controlled(vfio.bind, "address", "claim", "with"),
    "vfio_look": HelperVerb(vfio.look, ("address",)),
    "vfio_release": _controlled(vfio.release, "address", "claim"),
    "mdev_adopt": _controlled(
        adoption.adopt_mdev, "parent", "type", "uuid", "claim", *wanted_state.VGPU_ARGUMENTS
    ),
    "vgpu_adopt": _controlled(
        adoption.adopt_vgpu, "vf", "type", "claim", *wanted_state.VGPU_ARGUMENTS
    ),
    "vfio_adopt": _controlled(adoption.adopt_vfio, "address", "claim", "with"),
    "disown": _controlled(adoption.disown, "unit", "claim"),
    "layout_claim": _partitioning(layout_verbs.claim, "claim", *wanted_state.LAYOUT_ARGUMENTS),
    "layout_forget": _partitioning(layout_verbs.forget, "claim"),
    "mig_mode_set": _partitioning(mig_mode_verbs.set_mode, "enabled"),
    "vfs_set": _partitioning(virtual_functions.set_count, "count"),
    "mixed_size_set": _partitioning(vgpu_sharing.set_mixed_size, "enabled"),
    "scheduler_set": _partitioning(vgpu_sharing.set_policy, "policy", "timing"),
    "power_limit_set": _partitioning(power_verbs.set_limit, "watts"),
    "clocks_lock": _partitioning(power_verbs.lock, "range"),
    "gpu_reset": _partitioning(gpu_reset.reset),
    "gi_create": _partitioning(declared_instances.create, *_GI, "size", "compute"),
    "gi_destroy": _partitioning(declared_instances.destroy, *_GI, "id"),
    "fabric_look": HelperVerb(fabric_partitions.look),
    "fabric_activate": _controlled(fabric_partitions.activate, "partition", "gpus", "claim"),
    "fabric_deactivate": _controlled(fabric_partitions.deactivate, "partition", "claim"),
    "nic_vf_look": HelperVerb(nic_verbs.look, ("address",)),
    "nic_vf_take": _controlled(nic_verbs.take, "address", "claim", "trust", "spoof_check"),
    "nic_vf_release": _controlled(nic_verbs.release, "address", "claim"),
    "tpm_state_read": _controlled(tpm_state.read, "uuid"),
    "tpm_state_write": _controlled(tpm_state.write, "uuid", "files"),
    "tpm_state_remove": _controlled(tpm_state.remove, "uuid"),
    "claims": HelperVerb(claims.answer),
    "claim_rename": _controlled(claims.rename, "claim"),
    "restore": HelperVerb(boot_restore.restore, changes=True),
    "image_inspect": HelperVerb(disk_images.inspect, ("path", "pool_path")),
    "file_digest": HelperVerb(disk_images.digest, ("path", "pool_path")),
    "overlay_dissolve": HelperVerb(
        disk_images.dissolve,
        ("path", "pool_path", "below"),
        changes=True,
        controlled=True,
        long=True,
    ),
    "thin_volume_create": _controlled(thin_volumes.create, "group", "name", "bytes", "source"),
    "thin_volume_grow": _controlled(thin_volumes.grow, "group", "name", "bytes"),
    "rbd_look": HelperVerb(ceph_images.look, ("pool", "name")),
    "rbd_flatten": HelperVerb(
        ceph_images.flatten, ("pool", "name"), changes=True, controlled=True, long=True
    ),
    "kvm_probe": HelperVerb(kvm.kvm_probe),
    "fleet_join": _controlled(fleet_membership.join),
    "fleet_leave": _controlled(fleet_membership.leave),
    "forget": _controlled(fleet_membership.forget),
}


def handle(request: object, system: System) -> Answer:
    """Answer one request; every failure is an ``error`` object."""
    return answered(lambda: _answer(request, system))


def answered(work: Callable[[], Answer]) -> Answer:
    """What ``work`` found, or its failure, as an answer."""
    try:
        return {"ok": True, "result": work()}
    except HelperError as refusal:
        error = refusal
    except OSError as unread:
        error = errors.from_read(unread, "the host could not be read")
    except Exception as defect:
        # The caller has no other channel: a defect of ours, too, must arrive as an answer.
        why = f"{type(defect).__name__}: {defect}"
        error = HelperError(errors.UNKNOWN, "the helper failed", why)
    return {"ok": False, "error": error.as_dict()}


def _answer(request: object, system: System) -> Answer:
    if not isinstance(request, dict):
        raise HelperError(errors.BAD_ARGUMENT, "the request is not a JSON object")
    arguments.known(request, ("verb", "args", "fleet", "epoch"))
    name = request.get("verb")
    verb = VERBS.get(name) if isinstance(name, str) else None
    if verb is None:
        raise HelperError(errors.BAD_ARGUMENT, f"no verb {name!r}", f"known: {', '.join(VERBS)}")
    args = request.get("args", {})
    if not isinstance(args, dict):
        arguments.bad("args", "no object")
    arguments.known(args, verb.takes)
    if not verb.changes:
        return verb.run(Call(system, args))
    return _change(verb, request, Call(system, args))


def _change(verb: HelperVerb, request: Mapping[str, Any], call: Call) -> Answer:
    if verb.controlled:
        fleet, number = arguments.fleet(request), arguments.number(request, "epoch")
        call = Call(call.system, call.args, fleet, number)
    if not call.system.root():
        raise HelperError(errors.NOT_PERMITTED, "changes need root", "the helper runs without sudo")
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(call.system.lock(LOCK))
        except OSError as error:
            raise errors.from_effect(error, "the host's lock could not be taken") from error
        if verb.controlled:
            fleets.check_epoch(call)
        if not verb.long:
            return verb.run(call)
    return verb.run(call)
