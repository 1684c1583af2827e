"""MIG of a probe: names from the catalogue where the driver gives a number alone."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr import catalog
from vgpumgr.hosts.facts.answer import Answer
from vgpumgr.model.gpu import ComputeInstance, GpuInstance, MigFacts, MigProfile


def mig(model: str, answer: Answer | None) -> MigFacts | None:
    """MIG of a GPU of this model; None where it has none or its mode could not be read."""
    if answer is None:
        return None
    enabled, pending = answer.maybe_flag("enabled"), answer.maybe_flag("pending")
    if enabled is None or pending is None:
        return None
    names = _names(model)
    return MigFacts(
        enabled=enabled,
        pending=pending,
        profiles=tuple(_profile(each, names) for each in answer.objects("profiles")),
        instances=_instances(answer, names),
    )


def _names(model: str) -> Mapping[int, str]:
    """The catalogue's profile names of a board by the driver's number."""
    board = catalog.board(model)
    known = catalog.mig(board) if board else None
    return {each.id: each.name for each in known.profiles} if known else {}


def _name(name: str, number: int, names: Mapping[int, str]) -> str:
    return name or names.get(number) or f"profile-{number}"


def _profile(profile: Answer, names: Mapping[int, str]) -> MigProfile:
    number = profile.number("id")
    return MigProfile(
        name=_name(profile.text("name"), number, names),
        profile_id=number,
        gpu_slices=profile.number("slices"),
        size=profile.number("size"),
        starts=profile.numbers("starts"),
        remaining=profile.maybe_number("remaining"),
    )


def _instances(answer: Answer, names: Mapping[int, str]) -> tuple[GpuInstance, ...] | None:
    """None where they could not be read: nothing may be concluded from their absence."""
    if not answer.has("instances"):
        return None
    return tuple(_instance(each, names) for each in answer.objects("instances"))


def _instance(instance: Answer, names: Mapping[int, str]) -> GpuInstance:
    number = instance.number("profile_id")
    return GpuInstance(
        id=instance.number("id"),
        profile=_name(instance.text("profile"), number, names),
        profile_id=number,
        start=instance.number("start"),
        size=instance.number("size"),
        compute=tuple(
            ComputeInstance(id=each.number("id"), profile_id=each.number("profile_id"))
            for each in instance.objects("compute")
        ),
    )
