"""Where a backup is: the target's storage pool on the hosts, and which of them sees it now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.steps.backup_manifest import read_manifest
from vgpumgr.engine.storage.file_pool import FOLDERS
from vgpumgr.engine.storage.shared_storage import is_one_storage
from vgpumgr.model.errors import Conflict, HostUnreachable, NotFound, UsageError, VgpumgrError
from vgpumgr.model.host import HostFacts, HostRecord, StoragePool
from vgpumgr.model.ports import Host
from vgpumgr.model.vm import VmRecord
from vgpumgr.model.vm_backup import BackupManifest, BackupState, BackupTarget, VmBackup


def target_of(context: EngineContext, name: str) -> BackupTarget:
    """The target of that name, or the only one where none is named; NotFound, UsageError."""
    known = {each.name: each for each in context.ledger.backup_targets()}
    if name in known:
        return known[name]
    if name:
        raise NotFound(
            f"there is no backup target {name}",
            why=f"there are: {', '.join(known) or 'none'}",
            next="vgpumgr backup target list",
        )
    if not known:
        raise NotFound(
            "there is no backup target", next="vgpumgr backup target create NAME --pool POOL"
        )
    if len(known) > 1:
        raise UsageError(
            "several backup targets are there", why=", ".join(known), next="--target NAME"
        )
    return next(iter(known.values()))


def find_backup(backups: tuple[VmBackup, ...], prefix: str) -> VmBackup:
    """The backup of that id, or the beginning of one; NotFound, UsageError for several."""
    found = [each for each in backups if each.id.startswith(prefix)] if prefix else []
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(f"there is no backup {prefix!r:.80}", next="vgpumgr backup list")
    raise UsageError(
        f"several backups begin with {prefix}",
        why=", ".join(each.id[:12] for each in found[:5]),
        next="more letters of the id",
    )


def require_there(backup: VmBackup) -> None:
    """Conflict for one that is being made or deleted."""
    if backup.state is not BackupState.THERE:
        raise Conflict(
            f"backup {backup.id[:8]} of {backup.vm} is {backup.state}",
            why="an operation on it is not finished",
            next="vgpumgr operation list --open",
        )


def require_target(target: BackupTarget, vm: VmRecord, facts: HostFacts) -> StoragePool:
    """The target's pool on the VM's host; Conflict where it cannot have backups of the VM."""
    pools = {each.name: each for each in facts.pools}
    pool = pools.get(target.pool)
    cannot = f"{vm.name} cannot be backed up to {target.name}"
    if pool is None:
        raise Conflict(
            cannot,
            why=f"its host {facts.host} has no storage pool {target.pool} "
            f"(it has: {', '.join(sorted(pools)) or 'none'})",
            next=f"define the pool {target.pool} there (docs/backup.md), then "
            f"vgpumgr host probe {facts.host}",
        )
    if not pool.active:
        raise Conflict(
            cannot,
            why=f"storage pool {target.pool} of {facts.host} is not active",
            next=f"on {facts.host}: virsh pool-start {target.pool}",
        )
    if pool.kind not in FOLDERS or not pool.path:
        raise Conflict(
            cannot,
            why=f"storage pool {target.pool} of {facts.host} is of kind {pool.kind}; a backup is "
            f"files in a folder ({', '.join(sorted(FOLDERS))})",
            next="another target: vgpumgr backup target list",
        )
    for name in dict.fromkeys(pool for pool, _ in vm.every_volume):
        own = pools.get(name)
        one = own is not None and (own.path == pool.path or is_one_storage(own, pool))
        if name == target.pool or one:
            raise Conflict(
                cannot,
                why=f"its disks are in storage pool {name} of {facts.host}, in the same folder: "
                "what destroys that destroys both, so that it would be no backup",
                next=f"a target on other storage; or vgpumgr vm snapshot create {vm.name} NAME",
            )
    return pool


def hosts_of(hosts: Iterable[HostRecord], backup: VmBackup) -> Iterator[str]:
    """The hosts that may see the backup, first the one that made it, whether it shows the pool now
    or not: where a pool is a folder of each host's own, others know nothing of what is there.
    """
    have = [
        host.name
        for host in hosts
        if host.name == backup.host
        or (host.facts and any(each.name == backup.pool for each in host.facts.pools))
    ]
    yield from (name for name in have if name == backup.host)
    yield from (name for name in have if name != backup.host)


def seen_on(context: EngineContext, backup: VmBackup) -> tuple[Host, BackupManifest]:
    """A host that sees the backup now, and its manifest there. NotFound where all hosts that have
    its pool were asked and none sees it, HostUnreachable where one of them did not answer.
    """
    silent, asked = [], []
    for name in hosts_of(context.ledger.hosts(), backup):
        host = context.host(name)
        try:
            found = read_manifest(host, backup.pool, backup.manifest)
        except Conflict:
            raise
        except VgpumgrError as error:
            silent.append(f"{name}: {error.message}")
            continue
        if found is not None and found.id == backup.id:
            return host, found
        asked.append(name)
    what = f"backup {backup.id[:8]} of {backup.vm}"
    if silent or not asked:
        raise HostUnreachable(
            f"{what} cannot be read now",
            why="; ".join(silent) or f"no host has storage pool {backup.pool}",
            next="vgpumgr host list",
        )
    raise NotFound(
        f"{what} is not on its target any more",
        why=f"looked for in storage pool {backup.pool} of {', '.join(asked)}",
        next=f"vgpumgr backup delete {backup.id[:8]}   (forgets it)",
    )
