"""Disks of a VM that moves: shared ones stay, local ones are copied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from vgpumgr.engine.migration.move_plan import DiskMove, MoveCheck, failed_check, passed_check
from vgpumgr.engine.migration.move_reads import BaseImage, MoveReads
from vgpumgr.engine.reservation.vm_volumes import AttachedVolume, attached, volume_path
from vgpumgr.engine.storage.file_pool import FOLDERS
from vgpumgr.engine.storage.shared_storage import SHARED_KINDS, is_one_storage
from vgpumgr.model.domain import VolumeFacts, VolumePlan
from vgpumgr.model.errors import NotFound
from vgpumgr.model.formats import size_words
from vgpumgr.model.host import HostFacts, StoragePool
from vgpumgr.model.vm import VmRecord
from vgpumgr.model.vm_devices import DiskMode

# Pools whose volumes are files that can be carried over byte for byte.
FILE_KINDS = FOLDERS | {"vstorage"}


def disk_moves(
    vm: VmRecord,
    source: HostFacts,
    target: HostFacts,
    looks: MoveReads,
    *,
    live: bool,
    clones: Sequence[str],
) -> tuple[tuple[DiskMove, ...], tuple[MoveCheck, ...]]:
    """The move of every disk and snapshot, and the checks that prevent one. ``clones`` are VMs
    whose disks are laid over a snapshot.
    """
    moves: list[DiskMove] = []
    checks: list[MoveCheck] = []
    for volume in attached(vm):
        found = _move(volume, source, target, looks, live=live)
        if isinstance(found, DiskMove):
            moves.append(found)
            checks.append(_said(found, target))
        elif found is not None:
            checks.append(found)
    kept, found_kept = snapshot_moves(vm, moves, source, target, looks, live=live, clones=clones)
    checks += found_kept
    return (*moves, *kept), (*checks, *_base_checks(looks.bases, vm, source, target))


def _move(
    volume: AttachedVolume, source: HostFacts, target: HostFacts, looks: MoveReads, *, live: bool
) -> DiskMove | MoveCheck | None:
    """None where the target lacks the pool: placement says so."""
    facts = looks.here.get((volume.pool, volume.name))
    if facts is None:
        text = f"volume {volume.pool}/{volume.name} is not on {source.host}"
        return failed_check("disk", text, kind=NotFound)
    here, there = _pool(source, volume.pool), _pool(target, volume.pool)
    if here is None:
        # Perhaps only unread: a disk that nobody moves would be left behind.
        text = f"pool {volume.pool} on {source.host} could not be read, or is not active"
        return failed_check("disk", text, f"vgpumgr host probe {source.host}")
    if there is None:
        return None
    shared = is_one_storage(here, there)
    move = DiskMove(
        guest_name=volume.guest_name,
        pool=volume.pool,
        name=volume.name,
        size_bytes=facts.capacity_bytes,
        path=facts.path,
        target_path=volume_path(target, volume.pool, volume.name),
        cdrom=volume.disk is None,
        plan=None if shared else _plan(volume, facts, target, live=live),
    )
    refused = _refused(move, here, there, target.host, looks)
    return refused or (_refused_login(move, here, there, target.host) if live else None) or move


def _refused(
    move: DiskMove, here: StoragePool, there: StoragePool, target: str, looks: MoveReads
) -> MoveCheck | None:
    what = f"volume {move.pool}/{move.name}"
    seen = (move.pool, move.name) in looks.there
    if move.shared:
        text = f"{target} does not see {what}, though the pool is shared"
        return None if seen else failed_check("disk", text)
    if here.kind not in FILE_KINDS or there.kind not in FILE_KINDS:
        return failed_check(
            "disk", f"{what} is in a pool of kind {here.kind}: only files are copied"
        )
    return exists_already(what, here, there, target) if seen else None


def _refused_login(
    move: DiskMove, here: StoragePool, there: StoragePool, target: str
) -> MoveCheck | None:
    """A guest that runs on keeps the login and the secret's name that are in its XML."""
    mine, other = here.source, there.source
    if not move.shared or (mine.user, mine.secret) == (other.user, other.secret):
        return None
    text = f"pool {move.pool} on {target} logs in as another user, or by another secret"
    return failed_check("disk", text, "the same command with --cold")


def exists_already(what: str, here: StoragePool, there: StoragePool, target: str) -> MoveCheck:
    """The check that does not hold where a volume of the VM's own name is on the target, too: it is
    a copy that was left, or the same volume through a pool that does not say so.
    """
    text = f"{what} exists already on {target}"
    if SHARED_KINDS.isdisjoint({here.kind, there.kind}):
        advice = f"if {here.path} is one storage on both hosts: pools of kind netfs say so"
        return failed_check("disk", text, f"{advice}; otherwise virsh vol-delete it on {target}")
    if is_one_storage(here, there):
        return failed_check("disk", text, f"vgpumgr drift {target}")
    text = f"{text}, in a pool that may be the same storage under another name"
    names = f"{_behind(here)} here, {_behind(there)} there"
    return failed_check("disk", f"{text} ({names})", "name one server in the same words on both")


def _behind(pool: StoragePool) -> str:
    servers = ",".join(pool.source.hosts)
    return f"{pool.kind} {servers}:{pool.source.name}" if servers else pool.kind


def _plan(
    volume: AttachedVolume, facts: VolumeFacts, target: HostFacts, *, live: bool
) -> VolumePlan:
    """An overlay is recreated over the target's image; what is carried over brings its own."""
    plain = VolumePlan(
        pool=volume.pool,
        name=volume.name,
        capacity_bytes=facts.capacity_bytes,
        format=volume.format,
    )
    disk = volume.disk
    if not live or disk is None or disk.image is None or not disk.is_overlay:
        return plain
    return replace(
        plain,
        mode=DiskMode.OVERLAY,
        source=disk.image,
        source_path=volume_path(target, volume.pool, disk.image),
        source_format=disk.image_format,
    )


def _said(disk: DiskMove, target: HostFacts) -> MoveCheck:
    name, size = f"{disk.pool}/{disk.name}", size_words(disk.size_bytes)
    if disk.shared:
        return passed_check("disk", f"{name} stays: pool {disk.pool} is shared")
    return passed_check("disk", f"{name} is copied to {target.host}: {size}")


def _base_checks(
    bases: Sequence[BaseImage], vm: VmRecord, source: HostFacts, target: HostFacts
) -> Iterator[MoveCheck]:
    for base in bases:
        here, there = _pool(source, base.pool), _pool(target, base.pool)
        name = f"{base.pool}/{base.name}"
        if here is None or there is None:
            continue
        if here.path != there.path:
            text = f"pool {base.pool} is at {here.path} here and at {there.path} on {target.host}"
            yield failed_check("image", f"{text}: {vm.name}'s disk names its image by path")
        elif base.there is None:
            text = f"{name}, which a disk is laid over, is not on {target.host}"
            yield failed_check("image", text, f"copy it to {there.path} on {target.host}", NotFound)
        elif base.here != base.there:
            text = f"{name} is another image on {target.host} (compared by {base.how})"
            yield failed_check("image", text, f"copy it to {there.path} on {target.host}")
        else:
            yield passed_check(
                "image", f"{name} is the same on {target.host} (compared by {base.how})"
            )


def _pool(facts: HostFacts, name: str) -> StoragePool | None:
    return next((pool for pool in facts.pools if pool.name == name and pool.active), None)


_NAME = "snapshots"


def snapshot_moves(
    vm: VmRecord,
    disks: Sequence[DiskMove],
    source: HostFacts,
    target: HostFacts,
    looks: MoveReads,
    *,
    live: bool,
    clones: Sequence[str],
) -> tuple[tuple[DiskMove, ...], tuple[MoveCheck, ...]]:
    """The files of snapshots that are carried, and the checks on all of them. ``clones`` are VMs
    whose disks are laid over one.
    """
    if not vm.snapshots:
        return (), ()
    shared = {each.pool for each in disks if each.shared}
    staying = [each for each in vm.snapshots.volumes if each[0] in shared]
    going = [each for each in vm.snapshots.volumes if each[0] not in shared]
    checks = list(_shared(vm, staying, source, target, looks))
    if not going:
        return (), tuple(checks)
    refused = _refused_tree(vm, source, live=live, clones=clones)
    if refused is not None:
        return (), (refused,)
    found = [_file(vm, each, source, target, looks) for each in going]
    moves = tuple(each for each in found if isinstance(each, DiskMove))
    checks += [each for each in found if isinstance(each, MoveCheck)]
    size = size_words(sum(each.size_bytes for each in moves))
    names = ", ".join(each.name for each in vm.snapshots)
    said = passed_check(_NAME, f"{names}: copied to {target.host}, at most {size}")
    return moves, tuple(checks) or (said,)


def _refused_tree(
    vm: VmRecord, source: HostFacts, *, live: bool, clones: Sequence[str]
) -> MoveCheck | None:
    """Why the files cannot go along, whatever the target has."""
    if clones:
        text = f"the disks of {', '.join(clones)} are laid over a snapshot of {vm.name}"
        return failed_check(_NAME, text, f"vgpumgr vm delete {' '.join(clones)}")
    if live:
        text = f"{vm.name} has snapshots on {source.host}: a running guest's disks go without them"
        return failed_check(_NAME, text, "the same command with --cold")
    return None


def _file(
    vm: VmRecord,
    volume: tuple[str, str],
    source: HostFacts,
    target: HostFacts,
    looks: MoveReads,
) -> DiskMove | MoveCheck:
    pool, name = volume
    facts, path = looks.here.get(volume), _path(target, pool)
    if facts is None:
        text = f"volume {pool}/{name}, a snapshot of {vm.name}, is not on {source.host}"
        return failed_check(_NAME, text, f"vgpumgr drift {source.host}", NotFound)
    if path != _path(source, pool):
        text = f"pool {pool} is at {_path(source, pool)} here and at {path or 'no path'} there"
        return failed_check(_NAME, f"{text}: {vm.name}'s disks name its snapshots by path")
    if volume in looks.there:
        text = f"volume {pool}/{name} exists already on {target.host}"
        return failed_check(_NAME, text, f"vgpumgr drift {target.host}")
    plan = VolumePlan(pool=pool, name=name, capacity_bytes=facts.capacity_bytes, format="qcow2")
    return DiskMove(
        guest_name="",
        pool=pool,
        name=name,
        size_bytes=facts.capacity_bytes,
        path=facts.path,
        target_path=f"{path.rstrip('/')}/{name}",
        cdrom=False,
        plan=plan,
    )


def _shared(
    vm: VmRecord,
    volumes: Iterable[tuple[str, str]],
    source: HostFacts,
    target: HostFacts,
    looks: MoveReads,
) -> Iterator[MoveCheck]:
    """The target sees them, at the paths that the disks name."""
    for pool, name in volumes:
        if (pool, name) not in looks.there or _path(source, pool) != _path(target, pool):
            text = f"{target.host} does not see {pool}/{name}, a snapshot of {vm.name}, at its path"
            yield failed_check(_NAME, text)


def _path(facts: HostFacts, name: str) -> str:
    return next((pool.path for pool in facts.pools if pool.name == name and pool.active), "")
