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
    epoch,
    errors,
    layout_args,
    layout_claims,
    pci,
    vgpu_args,
)
from vgpumgr.helper.call import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import (
    adopt,
    examine,
    fabric_partitions,
    forget,
    gpu_instances,
    images,
    kvm,
    layouts,
    mdev,
    mig_mode,
    mixed_size,
    probe,
    restore,
    scheduler,
    vfio,
    vfs,
    vgpu,
)

LOCK = "/run/vgpumgr/lock"

Answer = dict[str, Any]


@dataclass(frozen=True)
class Verb:
    """``changes`` takes the host's lock and root; ``controlled`` also needs fleet and epoch."""

    run: Callable[[Call], Answer]
    takes: tuple[str, ...] = ()
    changes: bool = False
    controlled: bool = False


def version(_call: Call) -> Answer:
    """The helper's own version and the Python it runs on."""
    return {"helper": VERSION, "python": platform.python_version()}


def _controlled(run: Callable[[Call], Answer], *takes: str) -> Verb:
    return Verb(run, takes, changes=True, controlled=True)


def _partitioning(run: Callable[[Call], Answer], *takes: str) -> Verb:
    """A change of a GPU's partitioning, of no other device's, never against another's layout."""

    def checked(call: Call) -> Answer:
        layout_claims.ours(call)
        if pci.exists(call.system, call.args["gpu"]):
            pci.require_gpu(call.system, call.args["gpu"])
        return run(call)

    return _controlled(checked, "gpu", *takes)


_GI = ("profile_id", "start")

VERBS = {
    "version": Verb(version),
    "probe": Verb(probe.probe),
    "examine": Verb(examine.examine),
    "gpu_look": Verb(probe.gpu_look, ("gpu",)),
    "mdev_create": _controlled(mdev.create, "parent", "type", "uuid", "claim", *vgpu_args.NAMES),
    "mdev_look": Verb(mdev.look, ("uuid",)),
    "mdev_remove": _controlled(mdev.remove, "uuid", "claim"),
    "vgpu_create": _controlled(vgpu.create, "vf", "type", "claim", *vgpu_args.NAMES),
    "vgpu_look": Verb(vgpu.look, ("vf",)),
    "vgpu_release": _controlled(vgpu.release, "vf", "claim"),
    "vfio_bind": _controlled(vfio.bind, "address", "claim", "with"),
    "vfio_look": Verb(vfio.look, ("address",)),
    "vfio_release": _controlled(vfio.release, "address", "claim"),
    "mdev_adopt": _controlled(
        adopt.adopt_mdev, "parent", "type", "uuid", "claim", *vgpu_args.NAMES
    ),
    "vgpu_adopt": _controlled(adopt.adopt_vgpu, "vf", "type", "claim", *vgpu_args.NAMES),
    "vfio_adopt": _controlled(adopt.adopt_vfio, "address", "claim", "with"),
    "disown": _controlled(adopt.disown, "unit", "claim"),
    "layout_claim": _partitioning(layouts.claim, "claim", *layout_args.NAMES),
    "layout_forget": _partitioning(layouts.forget, "claim"),
    "mig_mode_set": _partitioning(mig_mode.set_mode, "enabled"),
    "vfs_set": _partitioning(vfs.set_count, "count"),
    "mixed_size_set": _partitioning(mixed_size.set_mode, "enabled"),
    "scheduler_set": _partitioning(scheduler.set_policy, "policy"),
    "gi_create": _partitioning(gpu_instances.create, *_GI, "size", "compute"),
    "gi_destroy": _partitioning(gpu_instances.destroy, *_GI, "id"),
    "fabric_look": Verb(fabric_partitions.look),
    "fabric_activate": _controlled(fabric_partitions.activate, "partition", "gpus", "claim"),
    "fabric_deactivate": _controlled(fabric_partitions.deactivate, "partition", "claim"),
    "claims": Verb(claims.answer),
    "restore": Verb(restore.restore, changes=True),
    "image_inspect": Verb(images.inspect, ("path", "pool_path")),
    "file_digest": Verb(images.digest, ("path", "pool_path")),
    "kvm_probe": Verb(kvm.kvm_probe),
    "fleet_join": _controlled(forget.join),
    "fleet_leave": _controlled(forget.leave),
    "forget": _controlled(forget.forget),
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


def _change(verb: Verb, request: Mapping[str, Any], call: Call) -> Answer:
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
            epoch.check(call)
        return verb.run(call)
