"""Tenants' quotas, the resources that tenants hold, and errors for an exceeded quota."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Protocol

from vgpumgr.model.allocation import Allocation, AllocationState
from vgpumgr.model.errors import QuotaExceeded
from vgpumgr.model.formats import exact_size, format_mib
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.image import ImageRecord
from vgpumgr.model.licence import seats_of
from vgpumgr.model.vm import VmRecord, VmState
from vgpumgr.model.vm_devices import DiskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """What VMs hold of what quotas limit.

    ``gpus`` are GPU parts, a vGPU and a whole GPU alike; ``gpu_memory_mib`` what those parts have;
    ``profiles`` how many parts of each profile; ``seats`` how many licences of each edition their
    guests take; ``storage_bytes`` how large their disks are, however little of them is written.
    """

    gpu_memory_mib: int = 0
    gpus: int = 0
    vcpus: int = 0
    vms: int = 0
    profiles: Mapping[str, int] = field(default_factory=dict)
    seats: Mapping[str, int] = field(default_factory=dict)
    storage_bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return self._with(other, 1)

    def __sub__(self, other: Amount) -> Amount:
        return self._with(other, -1)

    def _with(self, other: Amount, sign: int) -> Amount:
        return Amount(
            gpu_memory_mib=self.gpu_memory_mib + sign * other.gpu_memory_mib,
            gpus=self.gpus + sign * other.gpus,
            vcpus=self.vcpus + sign * other.vcpus,
            vms=self.vms + sign * other.vms,
            profiles=_sums(self.profiles, other.profiles, sign),
            seats=_sums(self.seats, other.seats, sign),
            storage_bytes=self.storage_bytes + sign * other.storage_bytes,
        )


def _sums(one: Mapping[str, int], other: Mapping[str, int], sign: int) -> dict[str, int]:
    sums = {name: one.get(name, 0) + sign * other.get(name, 0) for name in {**one, **other}}
    return {name: count for name, count in sums.items() if count}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The most a tenant may hold; None is no limit, as is a profile that is not named.

    ``reserved`` is how many parts of a profile are kept for the tenant: until it claims them only
    spot VMs of others may use them. ``weight`` is its share where tenants of equal priority
    compete: 2 gets twice as much as 1.
    """

    tenant: str
    gpu_memory_mib: int | None = None
    gpus: int | None = None
    vcpus: int | None = None
    vms: int | None = None
    profiles: Mapping[str, int] = field(default_factory=dict)
    reserved: Mapping[str, int] = field(default_factory=dict)
    weight: float = 1.0
    storage_bytes: int | None = None

    def exceeded_by(self, used: Amount, asked: Amount) -> tuple[Excess, ...]:
        """The limits that ``asked`` beside ``used`` would exceed; none that it does not touch."""
        return tuple(
            Excess(tenant=self.tenant, limit=name, used=has, asked=more, allowed=allowed)
            for name, allowed, has, more in self._lines(used, asked)
            if more > 0 and has + more > allowed
        )

    def _lines(self, used: Amount, asked: Amount) -> Iterator[tuple[str, int, int, int]]:
        for name in ("gpu_memory_mib", "gpus", "vcpus", "vms", "storage_bytes"):
            allowed = getattr(self, name)
            if allowed is not None:
                word = _FLAGS.get(name, name)
                yield word, allowed, getattr(used, name), getattr(asked, name)
        for profile, allowed in sorted(self.profiles.items()):
            yield profile, allowed, used.profiles.get(profile, 0), asked.profiles.get(profile, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A limit that would be exceeded. ``limit`` names it: ``gpu-memory``, ``gpus``, ``vcpus``,
    ``vms``, ``storage``, or the profile.
    """

    tenant: str
    limit: str
    used: int
    asked: int
    allowed: int


_WORDS = {
    "gpu-memory": "GPU memory",
    "gpus": "GPU parts",
    "vcpus": "vCPUs",
    "vms": "VMs",
    "storage": "storage",
}
_FLAGS = {"gpu_memory_mib": "gpu-memory", "storage_bytes": "storage"}


def held_by_tenants(
    vms: Iterable[VmRecord],
    allocations: Iterable[Allocation],
    gpus: Iterable[GpuRecord],
    images: Iterable[ImageRecord] = (),
) -> dict[str, Amount]:
    """What every tenant holds. A VM that moves counts where it is, and not where it goes, too; one
    that is shelved holds its disks alone. A disk that is as large as its image is as large as one
    of ``images``.
    """
    sizes = {image.volume: image.virtual_bytes for image in images}
    boards = {gpu.id: gpu for gpu in gpus}
    parts: dict[tuple[str, str], list[Allocation]] = {}
    for each in allocations:
        parts.setdefault((each.vm_id, each.host), []).append(each)
    found: dict[str, Amount] = {}
    for vm in vms:
        held = Amount(storage_bytes=storage_bytes(_disks(vm), sizes))
        if vm.state is not VmState.SHELVED:
            held += _held(vm, _had(vm, parts.get((vm.id, vm.host), ())), boards)
        found[vm.spec.tenant] = found.get(vm.spec.tenant, Amount()) + held
    return {tenant: held for tenant, held in found.items() if held != Amount()}


def _disks(vm: VmRecord) -> Sequence[DiskSpec]:
    """Of a VM whose disks grow: as large as they will be."""
    becoming = vm.moving_to.spec if vm.moving_to is not None else None
    return (becoming or vm.spec).disks


def storage_bytes(disks: Iterable[DiskSpec], sizes: Mapping[str, int]) -> int:
    """How large these disks are; ``sizes`` are those of images, by their volumes."""
    return sum(each.size_bytes or sizes.get(each.image or "", 0) for each in disks)


def _had(vm: VmRecord, parts: Sequence[Allocation]) -> Sequence[Allocation]:
    """Of a VM that moves within its host: without what it takes there."""
    if vm.moving_to is None or vm.moving_to.host != vm.host:
        return parts
    return [each for each in parts if each.state is not AllocationState.RESERVED]


def _held(vm: VmRecord, parts: Sequence[Allocation], boards: dict[str, GpuRecord]) -> Amount:
    return Amount(
        gpu_memory_mib=sum(_memory_mib(each, boards.get(each.gpu)) for each in parts),
        gpus=len(parts),
        vcpus=vm.spec.vcpus,
        vms=1,
        profiles=Counter(each.profile for each in parts),
        seats=seats_of(each.profile for each in parts),
    )


def _memory_mib(part: Allocation, board: GpuRecord | None) -> int:
    """As its profile says; of a part made before that was kept, its share of the GPU."""
    if part.memory_mib is not None:
        return part.memory_mib
    if board is None or board.facts.memory_mib is None:
        return 0
    return board.facts.memory_mib * len(part.slots) // max(1, board.units)


def excess_text(found: Excess) -> str:
    """``tenant render: GPU memory: 88 GiB of 96 GiB used, 16 GiB asked``."""
    what = _WORDS.get(found.limit, found.limit)
    used, allowed, asked = (
        _amount(found.limit, each) for each in (found.used, found.allowed, found.asked)
    )
    return f"tenant {found.tenant}: {what}: {used} of {allowed} used, {asked} asked"


def quota_exceeded(found: Sequence[Excess]) -> QuotaExceeded:
    """The error for what goes beyond a quota."""
    return QuotaExceeded(
        f"the quota of tenant {found[0].tenant} is exceeded",
        why="; ".join(map(excess_text, found)),
        next=f"vgpumgr quota list, or {quota_command(found)}",
    )


def quota_command(found: Sequence[Excess]) -> str:
    """What to type so that the first one's tenant may have that much."""
    tenant = found[0].tenant
    flags = " ".join(_flag(each) for each in found if each.tenant == tenant)
    return f"vgpumgr quota set {tenant} {flags}"


def _amount(limit: str, number: int) -> str:
    if limit == "storage" and number:
        return exact_size(number)
    return format_mib(number) if limit == "gpu-memory" and number else str(number)


def _flag(found: Excess) -> str:
    """What would allow it, as a flag of ``quota set``."""
    needed = found.used + found.asked
    if found.limit == "gpu-memory":
        return f"--gpu-memory {exact_size(needed << 20)}"
    if found.limit == "storage":
        return f"--storage {exact_size(needed)}"
    known = found.limit in _WORDS
    return f"--{found.limit} {needed}" if known else f"--profile {quote(found.limit)}={needed}"


class QuotaLedger(Protocol):
    """What tenants may hold: every ``reserve`` is held to it."""

    def quotas(self) -> tuple[Quota, ...]:
        """Every tenant's quota, by tenant."""

    def set_quota(self, quota: Quota) -> None:
        """Write a tenant's quota over the one it had. What is held beyond it stays."""

    def delete_quota(self, tenant: str) -> None:
        """Limit a tenant no more; NotFound for one without a quota."""
