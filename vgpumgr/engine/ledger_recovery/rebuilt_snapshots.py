"""Snapshots rebuilt from the files that a VM's disks are laid over, which do not say their names.

One that is not below the disks, as they were brought back from it once, is not found.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from vgpumgr.engine.steps.snapshot_steps import backing_file
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.ports import Host
from vgpumgr.model.snapshot import (
    MOST_SNAPSHOTS,
    NO_SNAPSHOTS,
    DiskMoment,
    Snapshot,
    SnapshotTree,
)

Volumes = tuple[tuple[str, str], ...]
"""One for each disk of a VM: a storage pool and a name."""


def files_below(host: Host, path: str) -> tuple[tuple[str, ...], str]:
    """The names of the files that one is laid over as far as they were made for the same VM, the
    upper ones first, and the path below all of them; nothing where the host cannot read them.
    """
    folder, name = posixpath.split(path)
    made_for, _, _ = name.rpartition("-")
    found: list[str] = []
    try:
        while made_for and len(found) < 2 * MOST_SNAPSHOTS:
            base = backing_file(host, path)
            where, below = posixpath.split(base)
            if where != folder or not below.startswith(f"{made_for}-"):
                return tuple(found), base
            found.append(below)
            path = base
    except VgpumgrError:
        return (), ""
    return tuple(found), ""


def rebuilt_tree(
    pools: Sequence[str], below: Sequence[Sequence[str]], known: SnapshotTree, now: float
) -> SnapshotTree:
    """The snapshots below a VM's disks, by each disk's pool and the files below it. One that the
    ledger knows keeps its name; of disks with chains of several lengths none is one.
    """
    tree = NO_SNAPSHOTS
    if not below or len({len(each) for each in below}) != 1:
        return tree
    for number, names in enumerate(reversed(list(zip(*below, strict=True))), 1):
        volumes = tuple(zip(pools, names, strict=True))
        tree = tree.taken(_named(volumes, number, known, now))
    return tree


def _named(volumes: Volumes, number: int, known: SnapshotTree, now: float) -> Snapshot:
    for each in known:
        if each.volumes == volumes:
            return each
    taken = {each.name for each in known}
    names = (f"found-{number}{'-again' * more}" for more in range(len(taken) + 1))
    return Snapshot(
        name=next(name for name in names if name not in taken),
        created_at=now,
        moment=DiskMoment.RUNNING,
        volumes=volumes,
    )
