"""What tenants hold of what their quotas limit, and the words for a quota that is exceeded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from shlex import quote

from vgpumgr.model.errors import QuotaExceeded
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.quota import Amount, Excess
from vgpumgr.model.size import exact_size, format_mib
from vgpumgr.model.vm import Allocation, AllocationState, VmRecord, VmState

_WORDS = {"gpu-memory": "GPU memory", "gpus": "GPU parts", "vcpus": "vCPUs", "vms": "VMs"}


def held_by_tenants(
    vms: Iterable[VmRecord], allocations: Iterable[Allocation], gpus: Iterable[GpuRecord]
) -> dict[str, Amount]:
    """What every tenant holds. A VM that moves counts where it is, and not where it goes, too; one
    that is shelved holds nothing.
    """
    boards = {gpu.id: gpu for gpu in gpus}
    parts: dict[tuple[str, str], list[Allocation]] = {}
    for each in allocations:
        parts.setdefault((each.vm_id, each.host), []).append(each)
    found: dict[str, Amount] = {}
    for vm in vms:
        if vm.state is not VmState.SHELVED:
            held = _held(vm, _had(vm, parts.get((vm.id, vm.host), ())), boards)
            found[vm.spec.tenant] = found.get(vm.spec.tenant, Amount()) + held
    return found


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
    return format_mib(number) if limit == "gpu-memory" and number else str(number)


def _flag(found: Excess) -> str:
    """What would allow it, as a flag of ``quota set``."""
    needed = found.used + found.asked
    if found.limit == "gpu-memory":
        return f"--gpu-memory {exact_size(needed << 20)}"
    known = found.limit in _WORDS
    return f"--{found.limit} {needed}" if known else f"--profile {quote(found.limit)}={needed}"
