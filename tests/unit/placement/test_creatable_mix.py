"""What the fleet can make is the expected mix of a fleet without a history."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.model.gpu import Framework
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply, Offer
from vgpumgr.placement.request_mix import Mix, creatable


def offer(profile: str, units: int) -> Offer:
    return Offer(
        profile=profile, framework=Framework.MDEV, type_id=profile, units=units,
        max_instances=8, memory_mib=1024 * units,
    )  # fmt: skip


def mix(*gpus: GpuSupply) -> Mix:
    host = HostSupply(name="h", free_vcpus=8, free_memory_mib=1 << 16, numa=(), gpus=gpus)
    return creatable(Fleet(hosts=(host,)))


def gpu(number: int, model: str = "T4") -> GpuSupply:
    """A GPU with offers of its own, equal to those of others of the model."""
    offers = (offer(f"{model}-1Q", 1), offer(f"{model}-2Q", 2))
    return GpuSupply(
        id=f"{model}-{number}", device=f"{number}", model=model, numa_node=None, units=8,
        free_slots=tuple(range(8)), offers=offers,
    )  # fmt: skip


def test_equal_offers_count_once_however_many_gpus_have_them() -> None:
    one = mix(gpu(0), gpu(0, "A40"))
    shared = gpu(1)
    assert mix(gpu(0), shared, replace(shared, id="same"), gpu(2), gpu(0, "A40")) == one
