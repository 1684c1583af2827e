"""Changes by hand: to what, and what is said of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.unit.drift import values
from tests.unit.drift.values import Fleet
from vgpumgr.domainxml import DomainParts
from vgpumgr.engine.drift.host_comparison import DomainDefinition, OperationsInProgress
from vgpumgr.model.domain import DomainState
from vgpumgr.model.drift import DriftKind as Kind
from vgpumgr.model.gpu import GpuHealth, GpuState, Mdev
from vgpumgr.model.host import ClaimFacts
from vgpumgr.model.layout import GpuLayout, LayoutRecord
from vgpumgr.model.operation import LAYOUT, TaskRecord, TaskState
from vgpumgr.model.vm import VmState

FOREIGN_MDEV = "11111111-2222-3333-4444-555555555555"


@dataclass(frozen=True)
class Case:
    """``change`` makes a fleet differ: ``kinds`` is all it finds, ``said`` among its words."""

    fleet: Callable[[], Fleet]
    change: Callable[[Fleet], Fleet]
    kinds: tuple[Kind, ...]
    said: tuple[str, ...]


def defined(fleet: Fleet, **settings: str) -> Fleet:
    """With settings of the definition changed."""
    old = fleet.seen["h1"].definitions["web"]
    parts = DomainParts({**old.parts.settings, **settings}, old.parts.devices)
    return fleet.with_seen(definitions={"web": DomainDefinition(parts, old.mark)})


def with_device(fleet: Fleet, name: str, text: str = "") -> Fleet:
    """With a device added to the definition, and to the running domain."""
    old = fleet.seen["h1"].definitions["web"]
    devices = {**old.parts.devices, name: text}
    parts = DomainParts(old.parts.settings, devices)
    return fleet.with_seen(
        definitions={"web": DomainDefinition(parts, old.mark)}, running_devices={"web": devices}
    )


def marked(fleet: Fleet, /, **changes: object) -> Fleet:
    old = fleet.seen["h1"].definitions["web"]
    assert old.mark is not None
    mark = replace(old.mark, **changes)  # type: ignore[arg-type]
    return fleet.with_seen(definitions={"web": DomainDefinition(old.parts, mark)})


def running(fleet: Fleet, **devices: str) -> Fleet:
    """With other devices in the running domain than in its definition."""
    there = fleet.seen["h1"].running_devices["web"]
    named = {name.replace("_", " "): text for name, text in devices.items()}
    return fleet.with_seen(running_devices={"web": {**there, **named}})


def detached(fleet: Fleet, kind: str) -> Fleet:
    there = fleet.seen["h1"].running_devices["web"]
    left = {name: text for name, text in there.items() if not name.startswith(kind)}
    return fleet.with_seen(running_devices={"web": left})


def elsewhere(fleet: Fleet) -> Fleet:
    """The ledger has the VM on another host, where nothing was looked at."""
    moved = tuple(replace(each, host="h2") for each in fleet.view.allocations)
    return fleet.with_vm(host="h2").with_view(allocations=moved).with_facts(claims=(), mdevs=())


def forgotten(fleet: Fleet) -> Fleet:
    return fleet.with_view(vms=(), allocations=())


def claimed(fleet: Fleet, /, **changes: object) -> Fleet:
    claim = fleet.facts.claims[0]
    return fleet.with_facts(claims=(replace(claim, **changes),))  # type: ignore[arg-type]


def on_driver(driver: str | None) -> Callable[[Fleet], Fleet]:
    return lambda fleet: fleet.with_first_vf(lambda vf: replace(vf, driver=driver, vendor=None))


def vgpu(**changes: object) -> Callable[[Fleet], Fleet]:
    """The vGPU of the VF that web has, as the driver shows it now."""

    def change(fleet: Fleet) -> Fleet:
        vfs = tuple(
            replace(vf, vendor=replace(vf.vendor, **changes))  # type: ignore[type-var]
            if vf.address == fleet.allocation.device
            else vf
            for vf in fleet.gpu.vfs
        )
        return fleet.with_gpu(vfs=vfs)

    return change


def unpartitioned(fleet: Fleet) -> Fleet:
    assert fleet.facts.fabric is not None
    off = tuple(replace(each, active=False) for each in fleet.facts.fabric.partitions)
    return fleet.with_facts(fabric=replace(fleet.facts.fabric, partitions=off))


def other_instances(*starts: int) -> Callable[[Fleet], Fleet]:
    def change(fleet: Fleet) -> Fleet:
        mig = fleet.gpu.mig
        assert mig is not None
        assert mig.instances
        moved = tuple(replace(mig.instances[0], start=start) for start in starts)
        return fleet.with_gpu(mig=replace(mig, instances=moved))

    return change


def foreign_mdev(fleet: Fleet) -> Fleet:
    made = Mdev(uuid=FOREIGN_MDEV, parent=fleet.gpu.device, type_id=fleet.allocation.type_id)
    return fleet.with_facts(mdevs=(*fleet.facts.mdevs, made))


def foreign_vgpu(fleet: Fleet) -> Fleet:
    vfs = list(fleet.gpu.vfs)
    assert vfs[7].vendor is not None
    vfs[7] = replace(vfs[7], vendor=replace(vfs[7].vendor, type_id=int(fleet.allocation.type_id)))
    return fleet.with_gpu(vfs=tuple(vfs))


def other_claim(fleet: Fleet) -> Fleet:
    claim = ClaimFacts(
        unit=f"pci-{fleet.gpu.vfs[3].address}",
        fleet="other",
        epoch=1,
        allocation="x",
        generation=1,
        vm="theirs",
    )
    return fleet.with_facts(claims=(*fleet.facts.claims, claim))


def layout(fleet: Fleet) -> Fleet:
    record = LayoutRecord(
        gpu=fleet.view.gpus[0].id,
        host="h1",
        layout="cut",
        goal=GpuLayout(vfs=5),
        operation="op",
        settled=True,
    )
    return fleet.with_view(layouts=(record,)).with_gpu(vfs=fleet.gpu.vfs[:3])


def interrupted(verb: str, vm_id: Callable[[Fleet], str]) -> Callable[[Fleet], Fleet]:
    def change(fleet: Fleet) -> Fleet:
        task = TaskRecord(
            id="t",
            operation="0123456789",
            vm_id=vm_id(fleet),
            vm="web" if verb != LAYOUT else "T4 0000:41:00.0",
            host="h1",
            verb=verb,
            steps=(),
            state=TaskState.RUNNING,
        )
        return replace(fleet, work=OperationsInProgress(interrupted=(task,)))

    return change


def helper(fleet: Fleet, version: str) -> Fleet:
    return fleet.with_facts(versions=replace(fleet.facts.versions, helper=version))


def kept_layout(fleet: Fleet, of: str) -> Fleet:
    """A layout that the host brings back at every boot."""
    claim = ClaimFacts(
        unit=f"layout-{fleet.gpu.device}",
        fleet=of,
        epoch=1,
        allocation=fleet.view.gpus[0].id,
        generation=1,
        vm="cut",
        wanted={"kind": "layout"},
    )
    others = tuple(each for each in fleet.facts.claims if each.unit != claim.unit)
    return fleet.with_facts(claims=(*others, claim))


def missing_gpu(fleet: Fleet) -> Fleet:
    gone = replace(fleet.view.gpus[-1], state=GpuState.MISSING)
    return fleet.with_view(gpus=(*fleet.view.gpus[:-1], gone))


M, V, I, P, F = (  # noqa: E741
    values.mdev,
    values.vendor_vf,
    values.instance,
    values.plain_vf,
    values.partition,
)
CASES = {
    # VMs
    "destroyed": Case(
        M,
        lambda f: f.with_domain(state=DomainState.SHUTOFF),
        (Kind.POWER,),
        ("web is shutoff", "vgpumgr vm start web"),
    ),
    "crashed": Case(
        M, lambda f: f.with_domain(state=DomainState.CRASHED), (Kind.POWER,), ("crashed",)
    ),
    "suspended": Case(
        M,
        lambda f: f.with_domain(state=DomainState.PAUSED),
        (Kind.POWER,),
        ("paused", "virsh resume web"),
    ),
    "started": Case(
        M, lambda f: f.with_vm(running=False), (Kind.POWER,), ("is running", "vgpumgr vm stop web")
    ),
    "undefined": Case(
        M,
        lambda f: f.with_facts(domains=()),
        (Kind.DOMAIN_MISSING,),
        ("not defined", "vgpumgr vm start web"),
    ),
    "renamed": Case(
        M,
        lambda f: f.with_domain(name="other"),
        (Kind.DOMAIN_MISSING,),
        ("other carries its mark", "virsh domrename other web"),
    ),
    "undefined while it runs": Case(
        M,
        lambda f: f.with_domain(persistent=False).with_seen(definitions={}),
        (Kind.DOMAIN_TRANSIENT,),
        ("no longer defined",),
    ),
    "another of that name": Case(
        M,
        lambda f: f.with_domain(ownership=None, devices=()),
        (Kind.DOMAIN_NOT_OURS,),
        ("somebody else", "domrename"),
    ),
    "mark of another fleet": Case(
        M, lambda f: marked(f, fleet="other"), (Kind.MARK,), ("fleet other", "--keep-nvram")
    ),
    "mark of the future": Case(
        M, lambda f: marked(f, generation=99), (Kind.MARK,), ("generation 99",)
    ),
    "mark without its allocation": Case(
        M, lambda f: marked(f, allocations=()), (Kind.MARK,), ("no allocations",)
    ),
    "on a host it left": Case(M, elsewhere, (Kind.DOMAIN_ELSEWHERE,), ("belongs to h2",)),
    "unknown to the ledger": Case(
        M,
        forgotten,
        (Kind.CLAIM_LEFTOVER, Kind.DOMAIN_LEFTOVER),
        ("no such VM", "is the ledger an older copy?"),
    ),
    # definitions
    "memory edited": Case(
        M,
        lambda f: defined(f, memory="2GiB"),
        (Kind.DEFINITION,),
        ("memory is 2GiB, should be 512MiB", "virsh edit web", "apply -f FILE"),
    ),
    "vcpus edited": Case(M, lambda f: defined(f, vcpus="4"), (Kind.DEFINITION,), ("vcpus is 4",)),
    "pinned": Case(
        M,
        lambda f: defined(f, **{"CPU pinning": "0 on 3"}),
        (Kind.DEFINITION,),
        ("CPU pinning was added: 0 on 3",),
    ),
    "autostart set": Case(
        M,
        lambda f: f.with_domain(autostart=True),
        (Kind.DEFINITION,),
        ("autostart of web is on, should be off", "virsh autostart --disable web"),
    ),
    "device defined and attached": Case(
        M,
        lambda f: with_device(f, "disk vdb", "/tmp/x.qcow2 (qcow2)"),
        (Kind.DEFINITION,),
        ("disk vdb was added: /tmp/x.qcow2",),
    ),
    "device defined for the next start": Case(
        M,
        lambda f: with_device(f, "disk vdb").with_seen(
            running_devices=f.seen["h1"].running_devices
        ),
        (Kind.DEFINITION,),
        ("disk vdb was added",),
    ),
    "device attached": Case(
        M,
        lambda f: running(f, disk_vdb="/tmp/x.raw (raw)"),
        (Kind.ATTACHED,),
        ("runs with other devices", "disk vdb was added", "vgpumgr vm stop web"),
    ),
    "device detached": Case(M, lambda f: detached(f, "NIC"), (Kind.ATTACHED,), ("is gone",)),
    # devices
    "mdev removed": Case(
        M, lambda f: f.with_facts(mdevs=()), (Kind.DEVICE_MISSING,), ("is gone from 0000:41:00.0",)
    ),
    "mdev of another type": Case(
        M,
        lambda f: f.with_facts(mdevs=(replace(f.facts.mdevs[0], type_id="nvidia-222"),)),
        (Kind.DEVICE_DIFFERS,),
        ("nvidia-222 on", "/remove, then vgpumgr vm start web"),
    ),
    "mdev on another parent": Case(
        M,
        lambda f: f.with_facts(mdevs=(replace(f.facts.mdevs[0], parent="mtty"),)),
        (Kind.DEVICE_DIFFERS,),
        ("on mtty",),
    ),
    "type rewritten": Case(
        V, vgpu(type_id=1), (Kind.DEVICE_DIFFERS,), ("type 1,", "current_vgpu_type")
    ),
    "type cleared": Case(V, vgpu(type_id=0), (Kind.DEVICE_MISSING,), ("carries no vGPU",)),
    "placed elsewhere": Case(
        V, vgpu(placement_id=40), (Kind.DEVICE_DIFFERS,), ("placement id 40",)
    ),
    "vendor's VF on another driver": Case(
        V, on_driver("vfio-pci"), (Kind.DEVICE_DRIVER,), ("on vfio-pci, which provides no vGPU",)
    ),
    "VFs off": Case(
        V,
        lambda f: f.with_gpu(vfs=()),
        (Kind.DEVICE_MISSING, Kind.LAYOUT),
        ("is off", "vgpumgr layout apply, then vgpumgr vm start web"),
    ),
    "VFs of no layout off": Case(
        P,
        lambda f: f.with_view(layouts=()).with_gpu(vfs=()).with_facts(claims=f.facts.claims[-1:]),
        (Kind.DEVICE_MISSING,),
        ("-f FILE with a Layout that turns VFs on",),
    ),
    "plain VF rebound": Case(P, on_driver("i915"), (Kind.DEVICE_DRIVER,), ("on i915, not on",)),
    "whole GPU rebound": Case(
        F,
        lambda f: f.with_gpu(driver="nvidia"),
        (Kind.DEVICE_DRIVER,),
        ("on nvidia, not on vfio-pci", "vgpumgr vm start web"),
    ),
    "whole GPU on no driver": Case(
        F, lambda f: f.with_gpu(driver=None), (Kind.DEVICE_DRIVER,), ("on no driver",)
    ),
    "whole GPU gone": Case(
        F,
        lambda f: f.with_facts(gpus=f.facts.gpus[1:]),
        (Kind.DEVICE_MISSING,),
        ("0000:41:00.0 is not on the bus",),
    ),
    "partition deactivated": Case(
        F, unpartitioned, (Kind.PARTITION_INACTIVE, Kind.PARTITION_INACTIVE), ("is not active",)
    ),
    "instance destroyed": Case(
        I, other_instances(), (Kind.INSTANCE_MISSING,), ("GPU instance 3g.40gb at slice 4 is gone",)
    ),
    "instance moved": Case(
        I,
        other_instances(0),
        (Kind.DEVICE_DIFFERS, Kind.INSTANCE_MISSING, Kind.LAYOUT),
        ("GPU instance at slice 0, not 4",),
    ),
    "in a foreign domain": Case(
        M,
        lambda f: f.with_stranger(f.allocation.device),
        (Kind.DEVICE_TAKEN,),
        ("in domain stranger, which is foreign", "virsh edit stranger"),
    ),
    "in a domain of another fleet, which claims it": Case(
        M,
        lambda f: claimed(f.with_stranger(f.allocation.device), fleet="other", vm="y"),
        (Kind.CLAIM_DIFFERS, Kind.DEVICE_TAKEN),
        ("which is foreign, claimed by fleet other for y → on h1: cat /var/lib/vgpumgr/claims/",),
    ),
    # claims
    "claim removed": Case(
        M,
        lambda f: f.with_facts(claims=()),
        (Kind.CLAIM_MISSING,),
        ("its claim is gone", "vgpumgr vm stop web; on h1: echo 1 >"),
    ),
    "claim of a whole GPU removed": Case(
        F,
        lambda f: f.with_facts(claims=f.facts.claims[1:]),
        (Kind.CLAIM_MISSING,),
        ("its claim is gone",),
    ),
    "claim removed with its device": Case(
        M,
        lambda f: f.with_facts(claims=(), mdevs=()),
        (Kind.CLAIM_MISSING, Kind.DEVICE_MISSING),
        ("vgpumgr vm start web",),
    ),
    "host installed anew": Case(
        M,
        lambda f: f.with_facts(claims=(), epochs={}),
        (Kind.CLAIM_MISSING, Kind.REINSTALLED),
        ("it was reinstalled", "vgpumgr host uncordon h1"),
    ),
    "claim of another fleet": Case(
        M, lambda f: claimed(f, fleet="other"), (Kind.CLAIM_DIFFERS,), ("another's: fleet other",)
    ),
    "claim of another generation": Case(
        M, lambda f: claimed(f, generation=7), (Kind.CLAIM_DIFFERS,), ("generation 7",)
    ),
    "claim for nobody": Case(
        M,
        lambda f: f.with_facts(
            claims=(*f.facts.claims, replace(f.facts.claims[0], unit="mdev-x", vm="gone"))
        ),
        (Kind.CLAIM_LEFTOVER,),
        ("claimed for VM gone of this fleet", "rm /var/lib/vgpumgr/claims/mdev-x.json"),
    ),
    "layout kept for nobody": Case(
        M,
        lambda f: kept_layout(f, f.view.fleet),
        (Kind.CLAIM_LEFTOVER,),
        ("at every boot as layout cut", "rm /var/lib/vgpumgr/claims/layout-0000:41:00.0.json"),
    ),
    "layout of another fleet": Case(
        P, lambda f: kept_layout(f, "other"), (Kind.CLAIM_DIFFERS,), ("it is fleet other's",)
    ),
    # storage
    "volume deleted": Case(
        M,
        lambda f: f.with_seen(volumes=dict.fromkeys(f.seen["h1"].volumes, False)),
        (Kind.VOLUME_MISSING,),
        ("is gone from storage pool default",),
    ),
    "pool stopped": Case(
        M,
        lambda f: f.with_facts(
            pools=tuple(replace(each, active=False) for each in f.facts.pools)
        ).with_seen(volumes={}),
        (Kind.POOL_INACTIVE,),
        ("is not active", "virsh pool-start default"),
    ),
    "pool undefined": Case(
        M,
        lambda f: f.with_facts(pools=()).with_seen(volumes={}),
        (Kind.POOL_MISSING,),
        ("is not defined", "pool-define"),
    ),
    # GPUs
    "VFs not as declared": Case(
        P, layout, (Kind.LAYOUT,), ("VFs: 3 on, wanted 5", "vgpumgr layout apply   (refused now")
    ),
    "another GPU gone": Case(F, missing_gpu, (Kind.GPU_MISSING,), ("is gone from its host",)),
    "off the bus": Case(
        M, lambda f: f.with_gpu(health=GpuHealth.LOST), (Kind.GPU_LOST,), ("fell off the bus",)
    ),
    "refuses too often": Case(
        M,
        lambda f: f.with_view(
            gpus=(
                replace(f.view.gpus[0], state=GpuState.QUARANTINED, state_why="it refused 3 times"),
            )
        ),
        (Kind.GPU_QUARANTINED,),
        ("is quarantined: it refused 3 times", "vgpumgr heal --lift"),
    ),
    "mdev made by hand": Case(
        M, foreign_mdev, (Kind.FOREIGN,), (FOREIGN_MDEV, "T4-4Q", "takes capacity and is foreign")
    ),
    "mdev of a foreign domain": Case(
        M,
        lambda f: foreign_mdev(f).with_stranger(FOREIGN_MDEV),
        (Kind.FOREIGN,),
        ("in domain stranger",),
    ),
    "vGPU made by hand": Case(V, foreign_vgpu, (Kind.FOREIGN,), ("a vGPU (L40S-8Q) on VF",)),
    "VF in a foreign domain": Case(
        P,
        lambda f: f.with_stranger(f.gpu.vfs[3].address),
        (Kind.FOREIGN,),
        ("in domain stranger takes capacity",),
    ),
    "GPU in a foreign domain": Case(
        F, lambda f: f.with_stranger(f.facts.gpus[7].device), (Kind.FOREIGN,), ("in domain",)
    ),
    "VF claimed by another fleet": Case(
        P, other_claim, (Kind.FOREIGN,), ("claimed by fleet other for theirs",)
    ),
    # helper
    "older helper": Case(
        M,
        lambda f: helper(f, "0"),
        (Kind.HELPER,),
        ("version 0, this vgpumgr brings", "vgpumgr host upgrade h1"),
    ),
    "newer helper": Case(
        M, lambda f: helper(f, "9999"), (Kind.HELPER,), ("use the vgpumgr that installed it",)
    ),
    # operations
    "interrupted": Case(
        M,
        lambda f: interrupted("delete", lambda f: f.vm.id)(f).with_vm(state=VmState.DELETING),
        (Kind.UNFINISHED,),
        ("delete of web was interrupted", "vgpumgr operation resume 01234567"),
    ),
    "layout interrupted": Case(
        P,
        lambda f: interrupted(LAYOUT, lambda f: f.view.gpus[0].id)(layout(f)),
        (Kind.UNFINISHED,),
        ("was interrupted", "vgpumgr layout apply"),
    ),
}
