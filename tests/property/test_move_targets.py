"""Where VMs can move and how, worked out per kind of host, against every pair of hosts checked."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.test_place import host as host_supply
from vgpumgr.engine.defrag.movable_vms import AllowedMoves, FleetMoveTargets, VmMoveTargets
from vgpumgr.engine.desktops.user_sessions import UserAtWork
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.migration.move_checks import gpu_checks, live_checks
from vgpumgr.engine.migration.move_reads import MoveReads
from vgpumgr.engine.storage.shared_storage import SHARED_KINDS
from vgpumgr.model.allocation import Allocation, AllocationState
from vgpumgr.model.defrag import MoveMode, MoveRoute
from vgpumgr.model.domain import DomainFacts, DomainState, MigrationAddress, PoolSource
from vgpumgr.model.gpu import Framework, GpuFacts, GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord, StoragePool, Versions
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import VmRecord, VmSpec, VmState

SHARED = min(SHARED_KINDS)
NAS, OTHER = (PoolSource(hosts=(n,), name="/vol") for n in ("nas", "other"))
POOLS = [StoragePool(name=n, kind=k, path="/p", capacity_bytes=1, available_bytes=1, source=s)
         for n, k, s in (("local", "dir", PoolSource()), ("net", SHARED, NAS),
                         ("net", SHARED, OTHER), ("san", SHARED, NAS))]  # fmt: skip


@st.composite
def versions(draw: st.DrawFn) -> Versions:
    return Versions(
        kernel=draw(st.sampled_from(["6.8", "6.8", "5.4"])),
        libvirt=draw(st.sampled_from(["9.0", "10.0", "10.0", ""])),
        qemu=draw(st.sampled_from(["8.2", "8.2", "9.0"])),
        driver=draw(st.sampled_from(["550", "550", "535", ""])),
    )


@st.composite
def hosts(draw: st.DrawFn, name: str) -> HostRecord:
    pools = {each.name: each for each in draw(st.sets(st.sampled_from(POOLS)))}
    facts = HostFacts(
        host=name, boot_id="b", hostname=name, versions=draw(versions()), cpus=8, memory_mib=4096,
        iommu=True, kvm=True, pools=tuple(pools.values()),
        cpu_model=draw(st.sampled_from(["Milan", "Milan", "Genoa", ""])),
    )  # fmt: skip
    address = draw(st.sampled_from([MigrationAddress(address="10.0.0.1"), None]))
    return HostRecord(name=name, address=f"sim://{name}", migration=address, facts=facts)


def held_by(vm: VmRecord, gpu: GpuRecord, framework: Framework) -> Allocation:
    return Allocation(
        id=f"a-{vm.id}-{gpu.id}", vm_id=vm.id, vm=vm.name, gpu=gpu.id, host=vm.host,
        profile="T4-4Q", framework=framework, type_id="t", slots=(0,), device="d", parent="p",
        state=AllocationState.ACTIVE, generation=1,
    )  # fmt: skip


Scene = tuple[LedgerView, Fleet, list[tuple[VmRecord, tuple[Allocation, ...], bool]]]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    names = [f"h{n}" for n in range(draw(st.integers(1, 5)))]
    records = tuple(draw(hosts(name)) for name in names)
    gpus = tuple(
        GpuRecord(
            id=f"{name}-{vendor}",
            host=name,
            facts=GpuFacts(device="d", path="/x", model="T4", vendor_device=f"{vendor}:1"),
            units=4,
        )
        for name in names
        for vendor in ("10de", "1002")
    )
    blocked = draw(st.sets(st.sampled_from(names)))
    fleet = Fleet(
        hosts=tuple(
            replace(host_supply(n), blocked="cordoned" if n in blocked else "") for n in names
        )
    )
    found = []
    for number in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from(names))
        vm = VmRecord(
            id=f"id-{number}", host=name, state=VmState.ACTIVE, running=True, generation=1,
            spec=VmSpec(name=f"vm{number}", vcpus=1, memory_mib=64),
            volumes=draw(st.sampled_from([(), (("local", "d"),), (("net", "d"),)])),
        )  # fmt: skip
        here = [gpu for gpu in gpus if gpu.host == name]
        chosen = draw(st.sampled_from([here, here[:1], here[1:]]))
        how = draw(st.sampled_from([Framework.MDEV, Framework.VFIO_VF, Framework.PCI_VF]))
        held = tuple(held_by(vm, gpu, how) for gpu in chosen)
        found.append((vm, held, draw(st.booleans())))
    view = LedgerView(fleet="f", hosts=records, gpus=gpus, vms=(), allocations=())
    return view, fleet, found


def checked(
    view: LedgerView,
    fleet: Fleet,
    allowed: AllowedMoves,
    user: UserAtWork | None,
    case: tuple[VmRecord, tuple[Allocation, ...], bool],
) -> VmMoveTargets:
    """Every host asked by itself."""
    vm, held, runs = case
    facts = {gpu.id: gpu.facts for gpu in view.gpus}
    by_name = {host.name: host for host in view.hosts}
    stopped = allowed.how(user=user, desktop=True) if runs else MoveMode.OFF
    running = DomainFacts(name=vm.name, uuid="", state=DomainState.RUNNING)
    looks = MoveReads(domain=running, xml="", namesake=None)
    source, ways = by_name[vm.host], {}
    why = "it moves within its host only while it is off"
    for supply in fleet.hosts:
        if supply.blocked or supply.name == vm.host:
            continue
        target = by_name[supply.name]
        assert source.facts and target.facts
        checks = (
            *live_checks(vm, held, source, target, looks),
            *gpu_checks(vm, held, None, facts, source.facts, target.facts),
        )
        failed = next((each for each in checks if not each.holds), None) if runs else None
        how = MoveMode.LIVE if runs and failed is None else stopped
        if how is None:
            why = f"it cannot move running: {failed.text}" if failed and not ways else why
            continue
        both = [
            {(p.name, p.source) for p in each.pools if p.kind in SHARED_KINDS}
            for each in (source.facts, target.facts)
        ]
        shared = {name for name, _ in both[0] & both[1]}
        copies = not {pool for pool, _ in vm.volumes} <= shared
        ways[target.name] = MoveRoute(how=how, copies=copies)
    within = None if stopped is None else MoveRoute(how=stopped)
    if ways or within is not None:
        return VmMoveTargets(ways=ways, within=within)
    return VmMoveTargets(ways={}, why=user.words if user and allowed.cold else why)


@settings(max_examples=200, deadline=None)
@given(scenes(), st.booleans(), st.booleans(), st.booleans())
def test_ways_are_what_checking_every_pair_of_hosts_gives(
    scene: Scene, cold: bool, with_users: bool, at_logoff: bool
) -> None:
    view, fleet, cases = scene
    allowed = AllowedMoves(cold=cold, with_users=with_users, at_logoff=at_logoff)
    users = {
        vm.id: UserAtWork(vm=vm.name, user="ada", pool="p")
        for number, (vm, _, _) in enumerate(cases)
        if number % 2
    }
    desktops = {vm.id for vm, _, _ in cases}
    ways = FleetMoveTargets(view, fleet, allowed, users, desktops)
    for case in cases:
        vm, held, runs = case
        found = ways.of(vm, held, runs=runs)
        wanted = checked(view, fleet, allowed, users.get(vm.id), case)
        assert found == wanted
        assert list(found.ways) == list(wanted.ways)
