"""The MIG GPU instance behind a vGPU: made for it, shared by claims, destroyed with the last."""

from __future__ import annotations

import contextlib
from typing import Any

from vgpumgr.helper import claims, errors, layout_claims, pci, wanted_state
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import mig_instances, mig_state, nvml_session
from vgpumgr.helper.system import System

Instance = dict[str, Any]


def settle(system: System, unit: str, instance: Instance | None) -> Instance | None:
    """What the claim must say of the instance before anything is made.

    One that exists and that no claim made is a layout's, and stays: ``make`` becomes False.
    ``refused`` where it must exist and does not.
    """
    if instance is None:
        return None
    with nvml_session.session(system) as session:
        gpu = session.gpu(instance["gpu"])
        mig_instances.require_mig(session, gpu, instance["gpu"])
        found = mig_state.at(session, gpu, instance["profile_id"], instance["start"])
        there = ", ".join(str(each) for each in mig_state.instances(session, gpu))
    if found is None and not instance["make"]:
        why = f"{instance['gpu']} has {there or 'no instances'}"
        raise HelperError(errors.REFUSED, f"no {_name(instance)}", why)
    if found is not None and not _is_made(_sharing(system, unit, instance)):
        return {**instance, "make": False}
    return instance


def hold(system: System, instance: Instance | None) -> int | None:
    """The id of the instance, made now where the claim says so; None for no instance."""
    if instance is None:
        return None
    with nvml_session.session(system) as session:
        gpu = session.gpu(instance["gpu"])
        mig_instances.require_mig(session, gpu, instance["gpu"])
        profile_id, start = instance["profile_id"], instance["start"]
        found = mig_state.at(session, gpu, profile_id, start)
        if found is None and not instance["make"]:
            raise HelperError(errors.REFUSED, f"no {_name(instance)}", "it is gone")
        if found is None:
            found = mig_instances.create(session, gpu, profile_id, start, instance["size"])
        return found.id


def let_go(system: System, unit: str, instance: Instance | None) -> None:
    """A claim leaves the instance it made: the last one destroys it, others inherit it.

    What a layout has come to declare since is the layout's.
    """
    if instance is None or not instance["make"] or not pci.exists(system, instance["gpu"]):
        return
    others = _sharing(system, unit, instance)
    if not others and not layout_claims.declares(system, instance):
        _destroy(system, instance)
    elif others and not _is_made(others):
        heir = others[0]
        _instance_of(heir)["make"] = True
        claims.rewrite(system, heir)


def described(system: System, vf: str, number: int | None) -> Instance | None:
    """``id``, ``start`` and ``size`` of a GPU instance by its id; where it lies may be unknown."""
    if number is None:
        return None
    found, gpu = None, pci.physical(system, vf)
    with contextlib.suppress(HelperError):
        if gpu is not None:
            with nvml_session.session(system) as session:
                found = mig_state.by_id(session, session.gpu(gpu), number)
    places = {"start": found.start, "size": found.size} if found else {"start": None, "size": None}
    return {"id": number, **places}


def require(made_in: int | None, wanted_id: int | None) -> None:
    """Refuse where the driver put the vGPU into another instance than the one asked for."""
    if wanted_id is not None and made_in != wanted_id:
        where = "no GPU instance" if made_in is None else f"GPU instance {made_in}"
        why = f"asked for GPU instance {wanted_id}, the driver chose {where}"
        raise HelperError(errors.REFUSED, "the vGPU is in another GPU instance", why)


def _sharing(system: System, unit: str, instance: Instance) -> list[claims.Claim]:
    """The other claims on the same instance; one that cannot be read stops."""
    found = (claims.load(system, other) for other in claims.units(system) if other != unit)
    sharing = (claim for claim in found if claim and wanted_state.instance(claim["wanted"]))
    return [claim for claim in sharing if _place(_instance_of(claim)) == _place(instance)]


def _is_made(sharing: list[claims.Claim]) -> bool:
    """Whether one of the claims on an instance made it: an instance of a layout has none."""
    return any(_instance_of(claim)["make"] for claim in sharing)


def _instance_of(claim: claims.Claim) -> Instance:
    found: Instance = claim["wanted"]["instance"]
    return found


def _destroy(system: System, instance: Instance) -> None:
    with nvml_session.session(system) as session:
        gpu = session.gpu(instance["gpu"])
        found = mig_state.at(session, gpu, instance["profile_id"], instance["start"])
        if found is not None:
            mig_instances.destroy(session, gpu, found)


def _place(instance: Instance) -> tuple[str, int, int]:
    return instance["gpu"], instance["profile_id"], instance["start"]


def _name(instance: Instance) -> str:
    return f"GPU instance of profile {instance['profile_id']} at {instance['start']}"
