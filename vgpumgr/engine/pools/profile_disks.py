"""Profile disks follow their users: attached to the desktop that each is on, and to no other.

The ledger's row of a disk says which VM may have it; it is written before the disk is attached, and
names another VM only once the first was seen without the disk, was seen off, or is gone from the
ledger, which it is when its host has shown that it is. Of a host that does not answer nothing is
known: the disk stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from vgpumgr import domainxml
from vgpumgr.domainxml.plugged_disk_xml import disk_of, disk_text, plugged_disk
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import worked_on
from vgpumgr.engine.reservation.domain_plan import pool_disk
from vgpumgr.engine.storage.shared_storage import SHARED_KINDS
from vgpumgr.model.desktop import DesktopRecord, PoolRecord
from vgpumgr.model.domain import OFF, DiskTuning, VolumePlan
from vgpumgr.model.errors import Conflict, LedgerError, NotFound, StaleGeneration, VgpumgrError
from vgpumgr.model.guest import GuestCommand
from vgpumgr.model.host import HostFacts, StoragePool
from vgpumgr.model.ports import Host
from vgpumgr.model.profile_disk import (
    PROFILE_SERIAL,
    PROFILE_TARGET,
    ProfileDisk,
    profile_volume,
)
from vgpumgr.model.vm import VmRecord

CHECK_S = 60.0
"""A disk that is where it belongs is looked at so often."""
LET_GO_S = 120.0
"""A guest that has not let go of a disk for so long holds no desktop up."""
_FLUSH = GuestCommand(run=("sync",), timeout_s=10.0)
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDiskNotice:
    """What became of a user's disk; ``why`` it could not be, otherwise empty."""

    user: str
    pool: str
    vm: str
    host: str
    text: str
    why: str = ""


@dataclass(slots=True)
class ProfileDisks:
    """One turn after the other; ``checked`` remembers which VM each disk was seen at, and when,
    ``left`` since when VMs have had the disk of a user who has gone.
    """

    context: EngineContext
    checked: dict[Key, tuple[str, float]] = field(default_factory=dict)
    left: dict[str, float] = field(default_factory=dict)

    def held_desktops(self) -> frozenset[str]:
        """The ids of desktops that have the disk of a user who has gone: what the guest has not
        written yet would be lost with them.
        """
        ledger, now = self.context.ledger, self.context.clock.monotonic()
        at = {each.vm_id for each in ledger.profile_disks()} - {""}
        rows = [
            row
            for row in (ledger.desktops() if at else ())
            if row.vm_id in at and row.desktop.session is None
        ]
        self.left = {row.vm_id: self.left.get(row.vm_id, now) for row in rows}
        return frozenset(row.id for row in rows if now - self.left[row.vm_id] < LET_GO_S)

    def step(self) -> Iterator[ProfileDiskNotice]:
        """Every disk is brought to where its user is, as far as that can be done now."""
        ledger = self.context.ledger
        pools = {each.id: each for each in ledger.pools() if each.spec.profile_disk is not None}
        known = {each.key: each for each in ledger.profile_disks()}
        if not pools and not known:
            return
        vms = {vm.id: vm for vm in ledger.vms()}
        wanted = _wanted(pools, ledger.desktops(), vms)
        busy = worked_on(ledger)
        for key in sorted({*known, *wanted}):
            if self.context.stop.is_set():
                return
            disk, vm = known.get(key), wanted.get(key)
            holder = vms.get(disk.vm_id) if disk is not None else None
            if busy & {each.id for each in (vm, holder) if each is not None}:
                continue
            yield from self._brought(key, disk, vm, vms, pools)
        yield from self._unkept(vms)

    def _brought(
        self,
        key: Key,
        disk: ProfileDisk | None,
        vm: VmRecord | None,
        vms: Mapping[str, VmRecord],
        pools: Mapping[str, PoolRecord],
    ) -> Iterator[ProfileDiskNotice]:
        there = vm.id if vm is not None else ""
        now = self.context.clock.monotonic()
        at, until = self.checked.get(key, ("", 0.0))
        if disk is not None and disk.vm_id == there == at and now < until:
            return
        about = vm or (vms.get(disk.vm_id) if disk is not None else None)
        try:
            text = self._follow(key, disk, vm, vms, pools)
        except LedgerError:
            raise
        except StaleGeneration:
            return  # another controller was faster
        except VgpumgrError as error:
            self.checked[key] = (there, now + CHECK_S)
            text = "cannot be had" if disk is None else "stays where it is"
            yield _notice(key, about, text, error.why or error.message)
            return
        self.checked[key] = (there, now + CHECK_S)
        if text:
            yield _notice(key, about, text)

    def _follow(
        self,
        key: Key,
        disk: ProfileDisk | None,
        vm: VmRecord | None,
        vms: Mapping[str, VmRecord],
        pools: Mapping[str, PoolRecord],
    ) -> str:
        """What was done, empty where nothing was; raises where it could not be."""
        ledger, done = self.context.ledger, ""
        if disk is not None and disk.vm_id and (vm is None or disk.vm_id != vm.id):
            holder = vms.get(disk.vm_id)
            if holder is not None:
                self._detach(holder, disk)
            disk, done = ledger.put_profile_disk(replace(disk, vm_id="")), "is detached"
        if vm is None:
            return done
        host, facts = self.context.host(vm.host), self._facts(vm.host)
        if disk is None:
            disk = _new(key, next(each for each in pools.values() if each.name == key[1]), facts)
        _shared_pool(facts, disk.storage_pool)
        if disk.vm_id != vm.id:
            disk = ledger.put_profile_disk(replace(disk, vm_id=vm.id))
        self._make(host, disk)
        return "is attached" if self._attach(host, facts, vm, disk) else done

    def _make(self, host: Host, disk: ProfileDisk) -> None:
        """Its volume at its first use; one that is lost is never replaced by an empty one."""
        found = host.storage.look(disk.storage_pool, disk.volume)
        if found is None and disk.made:
            where = f"{disk.storage_pool}/{disk.volume}"
            raise NotFound(f"volume {where} is gone", why=f"{where} is not on {host.name} any more")
        if found is None:
            format_ = "raw" if disk.volume.endswith(".raw") else "qcow2"
            plan = VolumePlan(
                pool=disk.storage_pool,
                name=disk.volume,
                capacity_bytes=disk.size_bytes,
                format=format_,
            )
            host.storage.create(disk.storage_pool, domainxml.volume(plan))
        if not disk.made:
            self.context.ledger.put_profile_disk(replace(disk, made=True))

    def _attach(self, host: Host, facts: HostFacts, vm: VmRecord, disk: ProfileDisk) -> bool:
        """Was it attached just now? A VM that is off gets it when it runs."""
        if not _runs(host, vm):
            return False
        plan = replace(
            pool_disk(facts, disk.storage_pool, disk.volume, PROFILE_TARGET),
            format="raw" if disk.volume.endswith(".raw") else "qcow2",
            tuning=DiskTuning(serial=PROFILE_SERIAL),
        )
        found = disk_text(host.domains.live_xml(vm.name), PROFILE_TARGET)
        if found and disk_of(found)[1] == plan.path:
            return False
        host.domains.attach_disk(vm.domain_uuid, plugged_disk(plan))
        return True

    def _detach(self, vm: VmRecord, disk: ProfileDisk) -> None:
        """Returns once the VM was seen without it."""
        host = self.context.host(vm.host)
        if self._seen_without(host, vm, disk):
            return
        if vm.spec.agent and not vm.spec.os.startswith("windows"):
            host.domains.run_in_guest(vm.domain_uuid, _FLUSH)
        host.domains.detach_disk(vm.domain_uuid, PROFILE_TARGET)
        if not self._seen_without(host, vm, disk):
            why = f"the guest of {vm.name} has not let go of it yet"
            raise Conflict(f"{disk.volume} is attached to {vm.name}", why=why)

    def _seen_without(self, host: Host, vm: VmRecord, disk: ProfileDisk) -> bool:
        if not _runs(host, vm):
            return True
        found = disk_text(host.domains.live_xml(vm.name), PROFILE_TARGET)
        return not found or not disk_of(found)[1].endswith(f"/{disk.volume}")

    def _facts(self, host: str) -> HostFacts:
        facts = self.context.ledger.host(host).facts
        if facts is None:
            raise NotFound(f"host {host} was not looked at yet", next=f"vgpumgr host probe {host}")
        return facts

    def _unkept(self, vms: Mapping[str, VmRecord]) -> Iterator[ProfileDiskNotice]:
        """Delete what its pool did not want kept, once the pool is gone."""
        ledger = self.context.ledger
        open_ = {(each.spec.desktop.tenant, each.name) for each in ledger.pools()}
        for disk in ledger.profile_disks():
            if disk.keep or disk.vm_id or (disk.tenant, disk.pool) in open_:
                continue
            for record in ledger.hosts():
                pools = record.facts.pools if record.facts else ()
                if any(each.name == disk.storage_pool and each.active for each in pools):
                    try:
                        self.context.host(record.name).storage.delete(
                            disk.storage_pool, disk.volume
                        )
                    except LedgerError:
                        raise
                    except VgpumgrError:
                        continue  # another host that shares the pool may answer
                    ledger.forget_profile_disk(disk)
                    yield _notice(disk.key, None, "is deleted with its pool")
                    break


def _runs(host: Host, vm: VmRecord) -> bool:
    """Does its domain run? Conflict where another domain has its name."""
    domain = host.domains.look(vm.name)
    if domain is not None and domain.uuid != vm.domain_uuid:
        raise Conflict(
            f"domain {vm.name} on {host.name} is another one",
            why=f"domain {vm.name} on {host.name} is not the one that vgpumgr made",
            next=f"vgpumgr drift {host.name}",
        )
    return domain is not None and domain.state not in OFF


def _wanted(
    pools: Mapping[str, PoolRecord], rows: tuple[DesktopRecord, ...], vms: Mapping[str, VmRecord]
) -> Mapping[Key, VmRecord]:
    """The VM that each user's disk belongs to: of several the one that the user came to first."""
    found: dict[Key, tuple[float, VmRecord]] = {}
    for row in rows:
        session, pool, vm = row.desktop.session, pools.get(row.pool), vms.get(row.vm_id)
        if session is None or pool is None or vm is None or not row.desktop.ready:
            continue
        key = (pool.spec.desktop.tenant, pool.name, session.user)
        if key not in found or session.since < found[key][0]:
            found[key] = (session.since, vm)
    return {key: vm for key, (_, vm) in found.items()}


def _new(key: Key, pool: PoolRecord, facts: HostFacts) -> ProfileDisk:
    said = pool.spec.profile_disk
    assert said is not None, "pools without profile disks are left out"
    kind = _shared_pool(facts, said.pool).kind
    tenant, name, user = key
    return ProfileDisk(
        tenant=tenant,
        pool=name,
        user=user,
        storage_pool=said.pool,
        volume=profile_volume(tenant, name, user, "raw" if kind == "rbd" else "qcow2"),
        size_bytes=said.size_bytes,
        keep=said.keep,
    )


def _shared_pool(facts: HostFacts, name: str) -> StoragePool:
    """The storage pool, which must be one that hosts share."""
    found = next((each for each in facts.pools if each.name == name and each.active), None)
    if found is None:
        raise Conflict(
            f"{facts.host} has no storage pool {name}",
            why=f"{facts.host} has no active storage pool {name}",
            next=f"vgpumgr host show {facts.host}",
        )
    if found.kind not in SHARED_KINDS:
        raise Conflict(
            f"storage pool {name} of {facts.host} is of that host alone",
            why=f"storage pool {name} of {facts.host} is of kind {found.kind}, of that host alone",
            next=f"define {name} as one that hosts share, by NFS say",
        )
    return found


def _notice(key: Key, vm: VmRecord | None, text: str, why: str = "") -> ProfileDiskNotice:
    _, pool, user = key
    name = vm.name if vm is not None else ""
    where = f" ({name})" if name else ""
    return ProfileDiskNotice(
        user=user,
        pool=pool,
        vm=name,
        host=vm.host if vm is not None else "",
        text=f"the profile disk of {user} in pool {pool} {text}{where}"
        + (f": {why}" if why else ""),
        why=why,
    )
