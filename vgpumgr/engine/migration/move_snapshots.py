"""Snapshots of a VM that moves: on shared storage they stay, files of the host's own go along."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vgpumgr.engine.migration.move_plan import DiskMove, MoveCheck, failed_check, passed_check
from vgpumgr.engine.migration.move_reads import MoveReads
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import NotFound
from vgpumgr.model.formats import size_words
from vgpumgr.model.host import HostFacts
from vgpumgr.model.vm import VmRecord

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
    refused = _refused(vm, source, live=live, clones=clones)
    if refused is not None:
        return (), (refused,)
    found = [_file(vm, each, source, target, looks) for each in going]
    moves = tuple(each for each in found if isinstance(each, DiskMove))
    checks += [each for each in found if isinstance(each, MoveCheck)]
    size = size_words(sum(each.size_bytes for each in moves))
    names = ", ".join(each.name for each in vm.snapshots)
    said = passed_check(_NAME, f"{names}: copied to {target.host}, at most {size}")
    return moves, tuple(checks) or (said,)


def _refused(
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
