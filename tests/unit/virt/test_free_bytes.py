"""What is free of a storage pool, where libvirt's own count of it goes past its ends."""

from __future__ import annotations

import pytest

from vgpumgr.virt.libvirt_storage import free_bytes

GIB = 1 << 30


@pytest.mark.parametrize(
    ("available", "free"),
    [
        (3 * GIB, 3 * GIB),
        (0, 0),
        # libvirt 9 on a dir pool: an empty pool after the deletion of a volume that had grown.
        (12 * GIB + 196_608, 12 * GIB),
        # libvirt 9 on an rbd pool: volumes that may grow to more than the pool.
        ((1 << 64) - GIB, 0),
    ],
)
def test_a_count_past_its_ends_is_all_or_nothing(available: int, free: int) -> None:
    assert free_bytes(12 * GIB, available) == free
