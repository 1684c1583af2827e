"""MIG of a probe: names from the catalogue where the driver gives a number alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpumgr import catalog
from vgpumgr.hosts.facts.answer import Answer
from vgpumgr.hosts.facts.vf_facts import MOST_TYPE_ID
from vgpumgr.model.gpu import ComputeInstance, GpuInstance, MigFacts, MigProfile, MigType

# Boards have 4 to 12 slices and a score of profiles; ids of the driver are small numbers.
_MOST_SLICES = 64
_MOST_PROFILES = 256
_MOST_ID = 2**16
# NVIDIA lists some sixty types of a board; the largest has less than 1 TiB.
_MOST_TYPES = 256
_MOST_MIB = 2**20
_MOST_VGPUS = 256


def mig(model: str, answer: Answer | None) -> MigFacts | None:
    """MIG of a GPU of this model; None where it has none or its mode could not be read."""
    if answer is None:
        return None
    enabled, pending = answer.maybe_flag("enabled"), answer.maybe_flag("pending")
    if enabled is None or pending is None:
        return None
    board = _known(model)
    listed = answer.objects("profiles", most=_MOST_PROFILES)
    return MigFacts(
        enabled=enabled,
        pending=pending,
        profiles=tuple(_profile(each, board) for each in listed),
        instances=_instances(answer, board),
        types=None if catalog.board(model) else _types(answer),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """What the catalogue knows of a board: names and sizes of profiles by the driver's number, what
    older drivers call them, and the slices of its memory grid; as many as any board's where it
    does not hold it.
    """

    names: Mapping[int, str]
    earlier: Mapping[int, tuple[str, ...]]
    sizes: Mapping[int, int]
    grid: int


def _known(model: str) -> _Known:
    board = catalog.board(model)
    found = catalog.mig(board) if board else None
    if found is None:
        return _Known({}, {}, {}, _MOST_SLICES)
    names = {each.id: each.name for each in found.profiles}
    earlier = {each.id: each.earlier for each in found.profiles}
    return _Known(names, earlier, {each.id: each.size for each in found.profiles}, found.grid)


def _name(name: str, number: int, board: _Known) -> str:
    """As the driver tells it, an earlier name as the catalogue has it now."""
    if not name or name in board.earlier.get(number, ()):
        return board.names.get(number) or f"profile-{number}"
    return name


def _profile(profile: Answer, board: _Known) -> MigProfile:
    """Of its places those that lie on the memory grid, by the catalogue's size, too."""
    profile.need("id", "size", "starts")
    number = profile.number("id", most=_MOST_ID)
    size = profile.number("size", 1, least=1, most=_MOST_SLICES)
    taken = max(size, board.sizes.get(number, 1))
    starts = profile.numbers("starts", count=_MOST_SLICES, most=_MOST_SLICES)
    return MigProfile(
        name=_name(profile.text("name"), number, board),
        profile_id=number,
        gpu_slices=profile.number("slices", most=_MOST_SLICES),
        size=size,
        starts=tuple(start for start in starts if start + taken <= board.grid),
        remaining=profile.maybe_number("remaining", most=_MOST_SLICES),
    )


def _types(answer: Answer) -> tuple[MigType, ...] | None:
    """Those whose size is told; None where the driver does not tell the profile of each."""
    if not answer.has("types"):
        return None
    listed = list(answer.objects("types", most=_MOST_TYPES))
    answer.once("types", (each.number("id", most=MOST_TYPE_ID) for each in listed))
    return tuple(_type(each) for each in listed if each.has("name") and each.has("memory_mib"))


def _type(told: Answer) -> MigType:
    """One in an instance and one of a VM, where the driver does not tell of more."""
    told.need("id", "profile_id")
    return MigType(
        type_id=str(told.number("id", most=MOST_TYPE_ID)),
        profile=catalog.normalise(told.text("name")),
        profile_id=told.number("profile_id", most=_MOST_ID),
        memory_mib=told.number("memory_mib", least=1, most=_MOST_MIB),
        per_instance=told.maybe_number("per_instance", least=1, most=_MOST_VGPUS) or 1,
        per_vm=told.maybe_number("per_vm", least=1, most=_MOST_VGPUS) or 1,
    )


def _instances(answer: Answer, board: _Known) -> tuple[GpuInstance, ...] | None:
    """None where they could not be read: nothing may be concluded from their absence.

    That holds where they lie off the memory grid of the catalogue's board as well.
    """
    if not answer.has("instances"):
        return None
    listed = answer.objects("instances", most=_MOST_SLICES)
    found = tuple(_instance(each, board) for each in listed)
    answer.once("instances", (each.id for each in found))
    answer.once("instances", (at for it in found for at in range(it.start, it.start + it.size)))
    return found if all(each.start + each.size <= board.grid for each in found) else None


def _instance(instance: Answer, board: _Known) -> GpuInstance:
    instance.need("id", "profile_id", "start", "size")
    number = instance.number("profile_id", most=_MOST_ID)
    return GpuInstance(
        id=instance.number("id", most=_MOST_ID),
        profile=_name(instance.text("profile"), number, board),
        profile_id=number,
        start=instance.number("start", most=_MOST_SLICES),
        size=instance.number("size", 1, least=1, most=_MOST_SLICES),
        compute=tuple(_compute(each) for each in instance.objects("compute", most=_MOST_SLICES)),
    )


def _compute(told: Answer) -> ComputeInstance:
    return ComputeInstance(
        id=told.number("id", most=_MOST_ID), profile_id=told.number("profile_id", most=_MOST_ID)
    )
