"""Whose disks another host sees too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from vgpumgr.engine.creation import attached
from vgpumgr.engine.migration.disks import SHARED_KINDS
from vgpumgr.engine.session import Session
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.host import HostFacts, HostRecord, StoragePool
from vgpumgr.model.ports import Host
from vgpumgr.model.vm import DiskMode, VmRecord

# By host: the volumes, as (pool, name), that it sees.
Seen = Mapping[str, Collection[tuple[str, str]]]


def look(session: Session, hosts: Iterable[HostRecord], vms: Collection[VmRecord]) -> Seen:
    """The volumes of these VMs that each host sees in its shared pools; none where it cannot say.

    A volume's name carries its VM's id: what has it and lies in a shared pool is that volume.
    """
    volumes = [volume for vm in vms for volume in vm.volumes]
    answers = session.lanes.run(
        {
            record.name: partial(_seen, session.hosts.open(record), record.facts, volumes)
            for record in hosts
            if record.facts is not None
        }
    )
    return {name: () if isinstance(found, Exception) else found for name, found in answers.items()}


def _seen(
    host: Host, facts: HostFacts, volumes: Iterable[tuple[str, str]]
) -> frozenset[tuple[str, str]]:
    shared = {pool.name for pool in facts.pools if pool.active and pool.kind in SHARED_KINDS}
    found = set()
    for pool, name in volumes:
        try:
            if pool in shared and host.storage.look(pool, name) is not None:
                found.add((pool, name))
        except VgpumgrError:
            break  # not seen is not there: such a host is no target
    return frozenset(found)


def own_disk(vm: VmRecord, lost: HostFacts | None) -> str:
    """Why its data is on the lost host alone; empty where all of it lies on shared storage."""
    for each in attached(vm):
        pool = _pool(lost, each.pool)
        if pool is None:
            return f"nothing is known of {each.pool}, the storage pool of {each.name}"
        if pool.kind not in SHARED_KINDS:
            return f"{each.pool}/{each.name} is on the host's own disks (a {pool.kind} pool)"
    return ""


def reaches(vm: VmRecord, lost: HostFacts | None, target: HostRecord, seen: Seen) -> bool:
    """Does the target see every volume of it, and its images under the same path?"""
    there = seen.get(target.name, ())
    if any(volume not in there for volume in vm.volumes):
        return False
    return all(
        _path(lost, disk.pool) == _path(target.facts, disk.pool)
        for disk in vm.spec.disks
        if disk.mode is DiskMode.OVERLAY
    )


def _path(facts: HostFacts | None, name: str) -> str:
    pool = _pool(facts, name)
    return pool.path if pool else ""


def _pool(facts: HostFacts | None, name: str) -> StoragePool | None:
    pools = facts.pools if facts else ()
    return next((pool for pool in pools if pool.name == name), None)
