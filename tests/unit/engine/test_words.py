"""A change of a VM, told in the words of its file."""

from __future__ import annotations

import pytest

from tests.world import vm
from vgpumgr.endpoints.replica_surplus import surplus
from vgpumgr.engine.planning.changed_fields import changed_fields
from vgpumgr.model.formats import exact_size, parse_bytes
from vgpumgr.model.vm import GpuRequest
from vgpumgr.model.vm_devices import CloudInit, DiskMode, DiskSpec, NicSpec

GPU = GpuRequest(profile="passthrough", model="T4", count=2)
COPY = DiskSpec(mode=DiskMode.COPY, image="deb.qcow2")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"memory_mib": 2049}, "memory: 2GiB → 2049MiB"),
        ({"gpus": (GPU,)}, "gpus: none → passthrough on T4 ×2"),
        ({"disks": (COPY,)}, "disks: none → copy of deb.qcow2 in default"),
        ({"nics": (NicSpec(bridge="br0"),)}, "networks: none → bridge br0"),
        ({"hugepage_kib": 2048}, "hugepages: none → 2MiB"),
        ({"flavour": "small"}, "flavour: none → small"),
        ({"display": True}, "display: false → true"),
        ({"console": True}, "console: false → true"),
        ({"labels": {"b": "2", "a": "1"}}, "labels: none → a=1, b=2"),
        ({"cloud_init": CloudInit(user_data="x")}, "cloud_init: differs (needs a new VM)"),
    ],
)
def test_a_changed_field_is_told_as_the_file_has_it(change: dict[str, object], told: str) -> None:
    assert changed_fields(vm("web"), vm("web", **change)) == (told,)


@pytest.mark.parametrize("count", [1, 1000, 1 << 20, 3 << 30, 5 << 40, (1 << 30) + 1])
def test_an_exact_size_can_be_typed(count: int) -> None:
    assert parse_bytes(exact_size(count)) == count


def test_the_surplus_is_what_lies_beyond_the_highest_number_of_the_same_name() -> None:
    there = ["a-01", "a-04", "a-03", "b-09", "web-1", "web-2", "a"]
    assert surplus(["a-01", "a-02", "web-1"], there) == ["a-03", "a-04"]
    assert surplus(["a"], there) == []
