"""Two fake hosts that can send each other running VMs, and what must hold of both at any time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.fakes import FakeHost, t4, t4_parent
from tests.world import IMAGE, World
from vgpumgr.model.domain import DomainState, MigrationAddress
from vgpumgr.model.host import Versions
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.model.vm_devices import CloudInit, DiskMode, DiskSpec, NicSpec

NEW = Versions(kernel="6.1.0", libvirt="9.7.0", qemu="8.2.0", driver="550.54.16")
BYTES = b"what the guest wrote"


def mover(name: str, number: int, **fields: object) -> FakeHost:
    """A host with a T4 of its own, new enough for live moves."""
    gpu = t4(uuid=f"GPU-{number}", serial=f"serial-{number}")
    given: dict[str, object] = {"gpus": [gpu], "parents": [t4_parent()], "versions": NEW}
    return FakeHost(name=name, **(given | fields))  # type: ignore[arg-type]


def two_hosts(folder: Path, *hosts: FakeHost) -> World:
    """h1 and h2, both with a migration address."""
    folder.mkdir(exist_ok=True)
    world = World(folder, *(hosts or (mover("h1", 1), mover("h2", 2))))
    for record in world.ledger.hosts():
        address = MigrationAddress(address=f"10.0.0.{record.name[-1]}")
        world.ledger.update_host(replace(record, migration=address))
    return world


def desk(profile: str = "T4-4Q", **fields: object) -> VmSpec:
    """A VM with a disk, a seed and a NIC, that is made on h1."""
    given: dict[str, object] = {
        "vcpus": 2,
        "memory_mib": 2048,
        "gpus": (GpuRequest(profile=profile),) if profile else (),
        "disks": (DiskSpec(mode=DiskMode.COPY, image=IMAGE, size_bytes=1 << 30),),
        "nics": (NicSpec(network="default"),),
        "cloud_init": CloudInit(user_data="#cloud-config\n"),
        "autostart": True,
    }
    return VmSpec(name="desk", **(given | fields))  # type: ignore[arg-type]


def make(world: World, spec: VmSpec) -> None:
    """Make it on h1, whatever else would be as good, with something on its disks."""
    h2 = world.ledger.host("h2")
    world.ledger.update_host(replace(h2, cordoned=True))
    world.engine.apply([spec])[1].raise_for_failure()
    h2 = world.ledger.host("h2")
    world.ledger.update_host(replace(h2, cordoned=False))
    h1 = world.hosts["h1"]
    for _, name in h1.volumes:
        h1.uploads.setdefault(name, BYTES)


def running(world: World) -> list[str]:
    """The hosts on which the VM runs."""
    return [name for name, host in world.hosts.items() if _state(host) is DomainState.RUNNING]


def defined(world: World) -> list[str]:
    """The hosts that keep a definition of it."""
    return [
        name
        for name, host in world.hosts.items()
        if (found := host.domains_by_name.get("desk")) is not None and found.persistent
    ]


def _state(host: FakeHost) -> DomainState | None:
    found = host.domains_by_name.get("desk")
    return found.state if found else None


def assert_never_twice(world: World) -> None:
    """At any moment: never two that run, never none that is defined, no unit twice."""
    assert len(running(world)) <= 1, running(world)
    assert defined(world), "it is defined nowhere"
    assert_units(world)


def assert_units(world: World) -> None:
    held = world.ledger.allocations()
    taken = Counter((each.gpu, slot) for each in held for slot in each.slots)
    assert all(count == 1 for count in taken.values())


def assert_settled_on(world: World, host: str, *, runs: bool = True) -> None:
    """It is on this host, all of it, and nothing of it is on the other."""
    [vm] = world.ledger.vms()
    other = world.hosts["h1" if host == "h2" else "h2"]
    home = world.hosts[host]
    assert (vm.host, vm.moving_to, str(vm.state)) == (host, None, "active")
    assert not world.ledger.operations(open_only=True)
    assert running(world) == ([host] if runs else [])
    assert defined(world) == [host]
    held = world.ledger.allocations()
    assert {(each.host, str(each.state)) for each in held} <= {(host, "active")}
    assert {str(claim["allocation"]) for claim in home.claims.values()} == {a.id for a in held}
    found = home.domains_by_name["desk"]
    assert set(found.devices) == {each.device for each in held}
    assert found.ownership is not None
    assert found.ownership.allocations == tuple(each.id for each in held)
    assert found.autostart == vm.spec.autostart
    assert (other.claims, other.mdevs, other.domains_by_name) == ({}, {}, {})
    assert {name for _, name in home.volumes} >= {name for _, name in vm.volumes}
    assert not {name for _, name in other.volumes} & {name for _, name in vm.volumes}
    assert_units(world)
