"""GPUs of every kind as a probe shows them, for the tests of frameworks."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.model.gpu import GpuFacts, GpuInstance, MdevType, MigFacts, VendorVgpu, VfFacts

PF = "0000:41:00.0"
EMPTY = VendorVgpu(creatable=(), type_id=0)


def board(key: str) -> catalog.Board:
    found = catalog.board(key)
    assert found is not None
    return found


def gpu(key: str, **changes: object) -> GpuFacts:
    """A GPU of a catalogue board on its driver, VFs off, MIG off where it has it."""
    known = board(key)
    facts = GpuFacts(
        device=PF,
        path=f"/sys/{PF}",
        model=key,
        vendor_device=known.vendor_device,
        uuid="GPU-1",
        driver="nvidia",
        sriov_total=32,
        mig=MigFacts(enabled=False, pending=False) if catalog.mig(known) else None,
        mixed_size=False if known.mixed_size else None,
    )
    return replace(facts, **changes)  # type: ignore[arg-type]


def vendor_vfs(key: str, count: int = 2, creatable: tuple[int, ...] | None = None) -> tuple:
    """VFs under the vendor-specific framework; the driver would make any type, or those told."""
    ids = tuple(each.id for each in board(key).types if each.id and not each.mig)
    told = ids if creatable is None else creatable
    return tuple(
        VfFacts(
            number=n,
            address=f"0000:41:00.{n + 4}",
            driver="nvidia",
            vendor=VendorVgpu(creatable=told, type_id=0),
        )
        for n in range(count)
    )


def mdev_vfs(key: str, count: int = 2) -> tuple[VfFacts, ...]:
    """VFs that are mdev parents of every type of the board."""
    types = tuple(
        MdevType(type_id=f"nvidia-{each.id}", name=each.name, available=1)
        for each in board(key).types
        if each.id
    )
    return tuple(
        VfFacts(number=n, address=f"0000:41:00.{n + 4}", driver="nvidia", mdev_types=types)
        for n in range(count)
    )


def plain_vfs(count: int) -> tuple[VfFacts, ...]:
    return tuple(
        VfFacts(number=n, address=f"0000:85:02.{n}", reset_methods=("flr",)) for n in range(count)
    )


def mi300x(vfs: int) -> GpuFacts:
    return GpuFacts(
        device="0000:85:00.0",
        path="/sys/85",
        model="MI300X",
        vendor_device="1002:74a1",
        driver="gim",
        sriov_total=16,
        vfs=plain_vfs(vfs),
    )


def instance(profile: str, profile_id: int, start: int, size: int, id: int = 7) -> GpuInstance:
    return GpuInstance(id=id, profile=profile, profile_id=profile_id, start=start, size=size)
