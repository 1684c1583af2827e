"""Capacity that tenants have reserved: spot VMs may use it until they claim it, others not."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.model.placement import Placed
from vgpumgr.model.vm import GpuRequest, NumaPolicy, VmSpec
from vgpumgr.placement.queue.books import Books


def claims(books: Books, vm: VmSpec) -> bool:
    """Whether all its GPU parts are ones its tenant has reserved and does not hold yet."""
    left = books.tenants.unclaimed().get(vm.tenant, {})
    asked = books.sizes.least(books.ground.demand(vm)).profiles
    return bool(asked) and all(left.get(name, 0) >= count for name, count in asked.items())


def encroaches(books: Books, placed: Placed) -> str:
    """The tenant of whose reserved parts fewer would fit beside this; empty: of none."""
    for tenant, parts in books.tenants.unclaimed().items():
        if tenant == placed.request.tenant:
            continue
        wanted = _stand_ins(parts)
        before = books.ground.room_for(wanted, books.spot)
        if books.ground.room_for(wanted, books.spot, (placed,)) < before:
            return tenant
    return ""


def _stand_ins(parts: Mapping[str, int]) -> list[VmSpec]:
    """A VM per reserved part that asks for nothing but the part."""
    return [
        VmSpec(
            name="reserved",
            vcpus=0,
            memory_mib=0,
            gpus=(GpuRequest(profile=profile),),
            numa=NumaPolicy.NONE,
        )
        for profile, count in sorted(parts.items())
        for _ in range(count)
    ]
