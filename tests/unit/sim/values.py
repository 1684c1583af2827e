"""A simulated host and what the tests put on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from vgpumgr import domainxml
from vgpumgr.model.domain import DomainPlan, Ownership, VolumePlan
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import DEFAULT_VERSIONS, SimBoard, SimHost

T4, H100, A6000, AUDIO = "0000:41:00.0", "0000:43:00.0", "0000:45:00.0", "0000:45:00.1"
MDEV = "4b20d080-1b54-4048-85b3-a6a62d165c01"
POOL = "/var/lib/libvirt/images"
CLAIM = {"allocation": "a1", "generation": 1, "vm": "vm"}
SIM = SimHost(
    name="h1",
    boards=(
        SimBoard(board="T4"),
        SimBoard(board="H100-PCIE-80GB"),
        SimBoard(board="RTX-A6000"),
    ),
    cpus=8,
    memory_mib=32 * 1024,
    hugepages_1gib=8,
)
PLAN = DomainPlan(
    name="vm",
    uuid="11111111-1111-4111-8111-111111111111",
    vcpus=2,
    memory_mib=4096,
    accelerator="kvm",
    ownership=Ownership(fleet="f", vm="vm", vm_id="id", generation=1),
)


def define(host: Host, plan: DomainPlan) -> str:
    return host.domains.define(domainxml.render(plan, DEFAULT_VERSIONS))


def named(plan: DomainPlan, name: str, number: int) -> DomainPlan:
    return replace(plan, name=name, uuid=f"11111111-1111-4111-8111-{number:012d}")


def refused(kind: type[Exception], words: str, act: Callable[[], object]) -> None:
    with pytest.raises(kind) as caught:
        act()
    assert words in str(getattr(caught.value, "why", ""))


def bind(host: Host, address: str, *companions: str) -> None:
    host.helper.call("vfio_bind", {"address": address, "with": list(companions), "claim": CLAIM})


def make_mdev(host: Host) -> None:
    host.helper.call(
        "mdev_create", {"parent": T4, "type": "nvidia-232", "uuid": MDEV, "claim": CLAIM}
    )


def make_volume(host: Host, name: str, **changes: object) -> None:
    plan = VolumePlan(pool="default", name=name, capacity_bytes=1 << 30, format="qcow2")
    host.storage.create("default", domainxml.volume(replace(plan, **changes)))  # type: ignore[arg-type]


def inspect(host: Host, name: str) -> dict[str, object]:
    return host.helper.call("image_inspect", {"path": f"{POOL}/{name}", "pool_path": POOL})
