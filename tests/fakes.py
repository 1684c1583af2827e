"""A small, stateful host in memory that fulfils ``model.ports``: helper, domains, storage.

Its rules are the real ones in short: an mdev needs budget and a claim, a claim of another
allocation is refused, a domain starts only when its devices are there. Every call goes through
``FakeHost.calls``; ``refuse`` makes chosen calls fail before or after their effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tests.fake_helper import FakeHelper
from tests.fake_libvirt import FakeDomains, FakeStorage
from vgpumgr.model.console_ticket import ConsoleKind
from vgpumgr.model.domain import (
    NO_SOURCE,
    DomainFacts,
    DomainState,
    GuestFacts,
    KeptBeside,
    MoveProgress,
    PoolSource,
    VolumeFacts,
)
from vgpumgr.model.errors import HostRefused, HostUnreachable, VgpumgrError
from vgpumgr.model.gpu import GpuFacts, Mdev, MdevType
from vgpumgr.model.gpu_figures import HostFigures
from vgpumgr.model.host import (
    ClaimFacts,
    HostFacts,
    HostRecord,
    NumaNode,
    StoragePool,
    UnknownPart,
    Versions,
)
from vgpumgr.model.ports import Host, Stream

Claim = dict[str, object]

VERSIONS = Versions(kernel="6.1.0", libvirt="9.0.0", qemu="7.2.0")


@dataclass
class FakeClock:
    """Time that passes only when somebody waits for it."""

    time: float = 1_700_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def wait(self, seconds: float) -> None:
        self.time += seconds

    def turn_to(self, monotonic: float) -> None:
        self.time = monotonic


@dataclass
class FakeParent:
    """An mdev parent: ``types`` maps the type id to (driver's name, units), sharing ``budget``."""

    name: str
    types: dict[str, tuple[str, int]]
    budget: int


def t4(number: int = 0, **changes: object) -> GpuFacts:
    """A Tesla T4 (a board of the catalogue) alone in its IOMMU group."""
    device = f"0000:{0x41 + number:02x}:00.0"
    facts = GpuFacts(
        device=device,
        path=f"/sys/devices/pci0000:40/{device}",
        model="T4",
        vendor_device="10de:1eb8",
        uuid=f"GPU-{number}",
        serial=f"serial-{number}",
        numa_node=0,
        memory_mib=15360,
        driver="nvidia",
        iommu_group=10 + number,
        group_devices=(device,),
    )
    return replace(facts, **changes)  # type: ignore[arg-type]


def t4_parent(number: int = 0) -> FakeParent:
    """The vGPU types of a T4 that the tests use."""
    types = {"nvidia-230": ("GRID T4-1Q", 1), "nvidia-231": ("GRID T4-2Q", 2)}
    types |= {"nvidia-232": ("GRID T4-4Q", 4), "nvidia-233": ("GRID T4-8Q", 8)}
    return FakeParent(f"0000:{0x41 + number:02x}:00.0", types, 16)


def mbochs() -> tuple[GpuFacts, FakeParent]:
    """The kernel's sample: three types on one budget of 64."""
    types = {f"mbochs-{n}": (f"type {n}", units) for n, units in ((1, 1), (2, 4), (3, 16))}
    return GpuFacts(device="mbochs", path="/sys/devices/virtual/mbochs", model="mbochs"), (
        FakeParent("mbochs", types, 64)
    )


@dataclass
class Refusal:
    """Fail the calls that match; ``after`` = the effect happens first (the answer was cut)."""

    match: Callable[[str, tuple[object, ...]], bool]
    error: VgpumgrError
    after: bool = False
    times: int = 1


@dataclass
class FakeStream:
    """A connection that was closed, or was not."""

    closed: bool = False

    def recv(self, size: int) -> bytes:
        return b""

    def sendall(self, data: bytes) -> None:
        """Nobody listens."""

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeHost:
    """One host. Everything on it is public: tests look at it and meddle with it."""

    name: str = "h1"
    gpus: list[GpuFacts] = field(default_factory=lambda: [t4()])
    parents: list[FakeParent] = field(default_factory=lambda: [t4_parent()])
    cpus: int = 32
    memory_mib: int = 65536
    iommu: bool = True
    numa: tuple[NumaNode, ...] = ()
    pools: tuple[str, ...] = ("default",)
    images: dict[str, dict[str, object]] = field(default_factory=dict)
    unknown: tuple[UnknownPart, ...] = ()
    fleet: str = ""
    mdevs: dict[str, tuple[str, str]] = field(default_factory=dict)
    drivers: dict[str, str | None] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    domains_by_name: dict[str, DomainFacts] = field(default_factory=dict)
    xml_by_name: dict[str, str] = field(default_factory=dict)
    live_by_name: dict[str, str] = field(default_factory=dict)
    volumes: dict[tuple[str, str], VolumeFacts] = field(default_factory=dict)
    uploads: dict[str, bytes] = field(default_factory=dict)
    consoles: list[FakeStream] = field(default_factory=list)
    moving: dict[str, MoveProgress] = field(default_factory=dict)
    versions: Versions = VERSIONS
    pool_kind: str = "dir"
    pool_source: PoolSource = NO_SOURCE
    cpu_model: str = ""
    cpu_fits: bool | None = True
    kept_beside: dict[str, KeptBeside] = field(default_factory=dict)
    guests: dict[str, GuestFacts] = field(default_factory=dict)
    programs: dict[str, Callable[[Sequence[str]], object]] = field(default_factory=dict)
    received: set[str] = field(default_factory=set)
    on_phase: Callable[[str], None] = lambda _: None
    down: bool = False
    boots: int = 1
    guests_ignore_acpi: bool = False
    calls: list[tuple[str, tuple[object, ...]]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    on_call: Callable[[str], None] = lambda _: None
    told: tuple[HostFacts, dict[str, str], dict[tuple[str, str], VolumeFacts]] | None = None

    def __post_init__(self) -> None:
        self.drivers |= {gpu.device: gpu.driver for gpu in self.gpus if gpu.address}
        self.helper = FakeHelper(self)
        self.domains = FakeDomains(self)
        self.storage = FakeStorage(self)

    # -- meddling ------------------------------------------------------------------------------

    def refuse(
        self,
        verb: str,
        error: VgpumgrError | None = None,
        *,
        about: str = "",
        after: bool = False,
        times: int = 1,
    ) -> None:
        """Fail the next ``times`` calls of ``verb`` whose arguments mention ``about``."""
        self.refusals.append(
            Refusal(
                match=lambda name, args: name == verb and about in repr(args),
                error=error or HostRefused("the kernel said no", errno_name="EIO"),
                after=after,
                times=times,
            )
        )

    def reboot(self) -> None:
        """Power cycle: domains off, mdevs and bindings gone; claims, definitions, volumes stay."""
        self.boots += 1
        self.mdevs.clear()
        self.live_by_name.clear()
        for name, facts in self.domains_by_name.items():
            self.domains_by_name[name] = replace(facts, state=DomainState.SHUTOFF)
        self.drivers |= {gpu.device: gpu.driver for gpu in self.gpus if gpu.address}

    def foreign_domain(
        self, name: str, *, state: DomainState = DomainState.RUNNING, devices: Iterable[str] = ()
    ) -> None:
        """A domain that somebody made with virsh."""
        self.domains_by_name[name] = DomainFacts(
            name=name, uuid="f" * 8, state=state, vcpus=2, memory_mib=2048, devices=tuple(devices)
        )
        self.xml_by_name[name] = "<domain/>"

    def foreign_mdev(self, uuid: str, parent: str, type_id: str) -> None:
        """An mdev that somebody made by hand."""
        self.mdevs[uuid] = (parent, type_id)

    def left(self) -> dict[str, object]:
        """What stands on the host, ids left out, to be compared with another host's."""
        return {
            "mdevs": sorted(self.mdevs.values()),
            "drivers": dict(self.drivers),
            "claims": sorted(str(claim["vm"]) for claim in self.claims.values()),
            "domains": {name: str(d.state) for name, d in sorted(self.domains_by_name.items())},
            "volumes": sorted((pool, _without_id(name)) for pool, name in self.volumes),
            "uploads": len(self.uploads),
        }

    # -- the host's side -----------------------------------------------------------------------

    def call(self, name: str, *args: object, effect: Callable[[], object]) -> object:
        """Write the call down, fail it where asked to, else have its effect."""
        if self.down:
            raise HostUnreachable(f"host {self.name} does not answer")
        self.calls.append((name, args))
        self.on_call(name)
        for refusal in self.refusals:
            if refusal.times and refusal.match(name, args):
                refusal.times -= 1
                if refusal.after:
                    effect()
                raise refusal.error
        return effect()

    def probe(self) -> HostFacts:
        """What a probe would show now: the same object as long as nothing has changed."""
        if self.down:
            raise HostUnreachable(f"host {self.name} does not answer")
        self.calls.append(("probe", ()))
        now = self._facts(), dict(self.xml_by_name), dict(self.volumes)
        if self.told is None or self.told != now:
            self.told = now
        return self.told[0]

    def figures(self) -> HostFigures:
        """It has nothing that measures."""
        if self.down:
            raise HostUnreachable(f"host {self.name} does not answer")
        self.calls.append(("figures", ()))
        return HostFigures(host=self.name)

    def _facts(self) -> HostFacts:
        return HostFacts(
            host=self.name,
            boot_id=str(self.boots),
            hostname=self.name,
            versions=self.versions,
            cpu_model=self.cpu_model,
            cpus=self.cpus,
            memory_mib=self.memory_mib,
            iommu=self.iommu,
            kvm=True,
            numa=self.numa or (NumaNode(id=0, cpus=tuple(range(self.cpus)), memory_mib=65536),),
            gpus=tuple(self._seen(gpu) for gpu in self.gpus),
            mdevs=tuple(
                Mdev(uuid=uuid, parent=parent, type_id=kind)
                for uuid, (parent, kind) in self.mdevs.items()
            ),
            claims=tuple(_claim_facts(unit, claim) for unit, claim in self.claims.items()),
            domains=tuple(self.domains_by_name.values()),
            pools=tuple(
                StoragePool(
                    name=pool,
                    kind=self.pool_kind,
                    source=self.pool_source,
                    path=f"/pools/{pool}",
                    capacity_bytes=1 << 40,
                    available_bytes=1 << 40,
                )
                for pool in self.pools
            ),
            networks=("default",),
            bridges=("br0",),
            unknown=self.unknown,
        )

    def console(self, domain: str, vm_id: str, kind: ConsoleKind = ConsoleKind.SCREEN) -> Stream:
        """A console at which nobody ever says anything."""

        def joined() -> FakeStream:
            self.consoles.append(FakeStream())
            return self.consoles[-1]

        found = self.call("console", domain, vm_id, effect=joined)
        assert isinstance(found, FakeStream)
        return found

    def close(self) -> None:
        """Nothing to close."""

    def parent(self, name: str) -> FakeParent | None:
        """The mdev parent of that name; a GPU on vfio-pci is none."""
        if self.drivers.get(name) == "vfio-pci":
            return None
        return next((each for each in self.parents if each.name == name), None)

    def lay_over(self, path: str, below: str) -> None:
        """A volume is laid over another one, or nothing."""
        for key, facts in self.volumes.items():
            if facts.path == path:
                self.volumes[key] = replace(facts, backing_path=below or None)

    def available(self, parent: FakeParent, kind: str) -> int:
        """``available_instances``: what is left of the budget; a T4 keeps to one size."""
        living = [each for owner, each in self.mdevs.values() if owner == parent.name]
        if parent.types[kind][0].startswith("GRID") and set(living) - {kind}:
            return 0
        free = parent.budget - sum(parent.types[each][1] for each in living)
        return free // parent.types[kind][1]

    def _seen(self, gpu: GpuFacts) -> GpuFacts:
        parent = self.parent(gpu.device)
        types = tuple(
            MdevType(type_id=kind, name=name, available=self.available(parent, kind))
            for kind, (name, _) in (parent.types.items() if parent else ())
        )
        return replace(gpu, driver=self.drivers.get(gpu.device), mdev_types=types)


def _without_id(volume: str) -> str:
    name, _, rest = volume.rpartition("-")
    return f"{name.rpartition('-')[0]}-{rest}"


def _claim_facts(unit: str, claim: Claim) -> ClaimFacts:
    return ClaimFacts(
        unit=unit,
        fleet=str(claim["fleet"]),
        epoch=1,
        allocation=str(claim["allocation"]),
        generation=int(str(claim["generation"])),
        vm=str(claim["vm"]),
    )


@dataclass
class FakeHosts:
    """Opens the fake hosts by name."""

    by_name: dict[str, FakeHost]

    def open(self, record: HostRecord) -> Host:
        return self.by_name[record.name]

    def close(self) -> None:
        """Nothing to close."""
