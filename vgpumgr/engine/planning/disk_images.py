"""Disk images of requested VMs: versions resolved to volumes, and files checked on their hosts."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model.apply_plan import ActionKind, Plan
from vgpumgr.model.domain import DiskType
from vgpumgr.model.errors import Conflict, NotFound, UsageError, VgpumgrError
from vgpumgr.model.formats import exact_size
from vgpumgr.model.host import HostRecord
from vgpumgr.model.image import CD, ImageRecord
from vgpumgr.model.placement import Placed
from vgpumgr.model.ports import Host, HostExecutor, Hosts
from vgpumgr.model.vm import VmRecord, VmSpec, VmState
from vgpumgr.model.vm_devices import CdSpec, DiskSpec


def resolved(
    specs: Iterable[VmSpec], images: Iterable[ImageRecord], known: Collection[str] = ()
) -> tuple[VmSpec, ...]:
    """The VMs with volumes for images of the ledger; any other name is a volume's already.

    Conflict for a retired image, unless the VM is among the ``known`` VMs: it has its disk.
    """
    by_reference = {each.reference: each for each in images}
    return tuple(_spec(spec, by_reference, spec.name in known) for spec in specs)


def _spec(spec: VmSpec, images: Mapping[str, ImageRecord], is_known: bool) -> VmSpec:
    if not any(each.image in images for each in images_of(spec)):
        return spec
    disks = tuple(_disk(spec, disk, images.get(disk.image or ""), is_known) for disk in spec.disks)
    cds = tuple(_cd(spec, cd, images.get(cd.image), is_known) for cd in spec.cds)
    return replace(spec, disks=disks, cds=cds)


def _disk(spec: VmSpec, disk: DiskSpec, image: ImageRecord | None, is_known: bool) -> DiskSpec:
    if image is None:
        return disk
    refuse_cd(image, spec.name)
    _refuse_retired(image, spec.name, is_known)
    return replace(disk, image=image.volume, image_format=image.format)


def _cd(spec: VmSpec, cd: CdSpec, image: ImageRecord | None, is_known: bool) -> CdSpec:
    if image is None:
        return cd
    if image.format != CD:
        raise UsageError(
            f"image {image.reference} is no CD",
            why=f"it would be in a drive of {spec.name}",
            next="vgpumgr image list   (FORMAT iso)",
        )
    _refuse_retired(image, spec.name, is_known)
    return replace(cd, image=image.volume)


def _refuse_retired(image: ImageRecord, name: str, is_known: bool) -> None:
    if image.retired_at is not None and not is_known:
        raise Conflict(
            f"image {image.reference} is retired",
            why=f"{name} would be created from it",
            next="vgpumgr image list   (lists other versions)",
        )


def images_of(spec: VmSpec) -> tuple[DiskSpec, ...]:
    """All that has to be on a host for the VM: the images of its disks, and its CDs."""
    return (*(disk for disk in spec.disks if disk.source), *(cd.as_disk for cd in spec.cds))


def refuse_cd(image: ImageRecord, name: str) -> None:
    """UsageError where a disk of ``name`` would be made from a CD."""
    if image.format == CD:
        raise UsageError(
            f"image {image.reference} is a CD",
            why=f"a disk of {name} would be made from it",
            next="vgpumgr image list   (FORMAT qcow2 or raw)",
        )


def refuse_unsteady(specs: Iterable[VmSpec], vms: Iterable[VmRecord]) -> None:
    """Conflict where a disk would be laid over a volume that a VM writes to, or that is about to
    go: what lies over another volume reads nonsense once that changes.
    """
    wanted = tuple(specs)
    for vm in vms:
        unsteady = vm.unsteady_volumes
        for spec in wanted:
            if spec.name != vm.name and spec.is_laid_over(unsteady):
                raise Conflict(
                    f"a disk of {spec.name} would be laid over a disk of {vm.name}",
                    why=f"{vm.name} is {vm.state}"
                    if vm.state is not VmState.ACTIVE
                    else f"{vm.name} writes to it",
                    next=f"vgpumgr vm snapshot create {vm.name} SNAPSHOT, "
                    f"then vgpumgr vm clone {vm.name} {spec.name} --snapshot SNAPSHOT",
                )


# Host, storage pool, volume.
Volume = tuple[str, str, str]


def absent(
    placed: Sequence[Placed], view: LedgerView, hosts: Hosts, lanes: HostExecutor
) -> frozenset[Volume]:
    """Bare image volumes that are missing on hosts where VMs would go, though other hosts have
    them: all hosts are asked, and the missing ones are returned. A volume on no host is left to
    :func:`check_images`; images of the ledger are known already.
    """
    kept = {image.volume for image in view.images}
    chosen = {
        (each.host, *disk.source)
        for each in placed
        for disk in images_of(each.request)
        if disk.source and disk.source[1] not in kept
    }
    if not chosen:
        return frozenset()
    records = {host.name: host for host in view.hosts if host.facts and not host.last_error}
    missing = _missing(chosen, records, hosts, lanes)
    wanted = {(pool, volume) for _, pool, volume in missing}
    others = {(name, *each) for name in records for each in wanted} - chosen
    missing |= _missing(others, records, hosts, lanes)
    nowhere = {each for each in wanted if all((name, *each) in missing for name in records)}
    return frozenset(each for each in missing if each[1:] not in nowhere)


def lies_nowhere(
    pool: str, volume: str, records: Iterable[HostRecord], hosts: Hosts, lanes: HostExecutor
) -> bool:
    """Does no host have that volume? False where one could not be asked, or there is none."""
    known = {host.name: host for host in records}
    asked = {(name, pool, volume) for name in known}
    return bool(asked) and _missing(asked, known, hosts, lanes) == asked


def _missing(
    volumes: Collection[Volume],
    records: Mapping[str, HostRecord],
    hosts: Hosts,
    lanes: HostExecutor,
) -> frozenset[Volume]:
    """Volumes that surely are missing: a host that could not be asked may have one."""
    by_host: dict[str, set[tuple[str, str]]] = {}
    for name, pool, volume in volumes:
        if name in records:
            by_host.setdefault(name, set()).add((pool, volume))
    found = lanes.run(
        {
            name: partial(_not_there, records[name], each, hosts)
            for name, each in sorted(by_host.items())
        }
    )
    return frozenset(
        (name, *each)
        for name, result in found.items()
        if not isinstance(result, Exception)
        for each in result
    )


def _not_there(
    record: HostRecord, volumes: Iterable[tuple[str, str]], hosts: Hosts
) -> list[tuple[str, str]]:
    known = record.facts.pools if record.facts else ()
    paths = {pool.name: pool.path for pool in known}
    raw = {pool.name for pool in known if pool.disk_type is not DiskType.FILE}
    host, gone = hosts.open(record), []
    for pool, volume in sorted(volumes):
        if pool not in paths:
            gone.append((pool, volume))
            continue
        path = f"{paths[pool].rstrip('/')}/{volume}"
        try:
            if pool in raw:
                _raw_volume(host, DiskSpec(pool=pool, image=volume))
                continue
            host.helper.call("image_inspect", {"path": path, "pool_path": paths[pool]})
        except NotFound:
            gone.append((pool, volume))
        except VgpumgrError:
            continue  # it is there, and something is wrong with it: that is said later
    return gone


def check_images(
    placed: Iterable[Placed], records: Mapping[str, HostRecord], hosts: Hosts, lanes: HostExecutor
) -> None:
    """Look at the header of every image on every host that will use it; raises the first fault."""
    check_disks(
        ((each.host, disk) for each in placed for disk in images_of(each.request)),
        records,
        hosts,
        lanes,
    )


def check_planned(
    planned: Plan, records: Mapping[str, HostRecord], hosts: Hosts, lanes: HostExecutor
) -> None:
    """:func:`check_images` for all that a plan places, and for CDs that other VMs get."""
    placed = [action.placed for action in planned.actions if action.placed]
    check_images(placed, records, hosts, lanes)
    check_disks(_new_cds(planned), records, hosts, lanes)


def _new_cds(planned: Plan) -> Iterator[tuple[str, DiskSpec]]:
    for action in planned.actions:
        if action.kind is ActionKind.CHANGE and action.record is not None:
            had = action.record.spec.cds
            yield from ((action.host, cd.as_disk) for cd in action.vm.cds if cd not in had)


def check_disks(
    disks: Iterable[tuple[str, DiskSpec]],
    records: Mapping[str, HostRecord],
    hosts: Hosts,
    lanes: HostExecutor,
) -> None:
    """:func:`check_images` for disks, each with its future host."""
    wanted: dict[str, set[DiskSpec]] = {}
    for host, disk in disks:
        if disk.source:
            wanted.setdefault(host, set()).add(disk)
    results = lanes.run(
        {
            host: partial(_check_host, records[host], images, hosts)
            for host, images in sorted(wanted.items())
        }
    )
    for result in results.values():
        if isinstance(result, Exception):
            raise result


def _check_host(record: HostRecord, disks: Iterable[DiskSpec], hosts: Hosts) -> None:
    facts = record.facts
    shown = facts.pools if facts else ()
    pools = {pool.name: pool.path for pool in shown}
    raw = {pool.name for pool in shown if pool.disk_type is not DiskType.FILE}
    host = hosts.open(record)
    for disk in sorted(disks, key=lambda each: each.source or ("", "")):
        pool, image = disk.source or ("", "")
        if pool in raw:
            _judge(disk, _raw_volume(host, disk), pools[pool], record.name)
            continue
        path = f"{pools[pool].rstrip('/')}/{image}"
        try:
            seen = host.helper.call("image_inspect", {"path": path, "pool_path": pools[pool]})
        except NotFound as error:
            raise NotFound(
                f"disk image {image} is not in pool {pool} on {record.name}",
                why=error.message,
                next="vgpumgr image list   (lists images and their versions)"
                if "@" in image
                else f"copy it to {pools[pool]} on {record.name}; or, of an imported image, "
                "NAME@VERSION",
            ) from error
        _judge(disk, seen, pools[pool], record.name)


def _raw_volume(host: Host, disk: DiskSpec) -> Mapping[str, object]:
    """What the header of a file would say, of a volume that is none."""
    found = host.storage.look(disk.pool, disk.image or "")
    if found is None:
        raise NotFound(
            f"disk image {disk.image} is not in pool {disk.pool} on {host.name}",
            why="the pool has no volume of that name",
            next=f"virsh vol-list {disk.pool}   (on {host.name})",
        )
    return {"format": "raw", "virtual_bytes": found.capacity_bytes}


_FOR_A_CD = "; a CD is an image of format iso"


def _judge(disk: DiskSpec, seen: Mapping[str, object], pool_path: str, host: str) -> None:
    pool, image = disk.source or ("", "")
    where = f"image {image} in pool {pool} on {host}"
    raw = disk.source_format == "raw"
    if seen["format"] != disk.source_format:
        raise UsageError(
            f"{where} is {seen['format']}, not {disk.source_format}",
            why="the format is declared, never guessed",
            next=f"write image_format: {seen['format']}{_FOR_A_CD if raw else ''}",
        )
    if seen.get("data_file"):
        raise Conflict(
            f"{where} keeps its data in another file", next="flatten it with qemu-img convert"
        )
    virtual = seen.get("virtual_bytes")
    if disk.size_bytes and isinstance(virtual, int) and disk.size_bytes < virtual:
        raise UsageError(
            f"{where} is {exact_size(virtual)}, its disk only {exact_size(disk.size_bytes)}",
            why="a disk smaller than its image cuts the end off",
            next=f"write size: {exact_size(virtual)} or more, or leave size out",
        )
    backing = seen.get("backing")
    if isinstance(backing, str) and not _inside(backing, pool_path):
        raise Conflict(
            f"{where} has a backing file outside the pool: {backing}",
            why="a disk may only read volumes of its own pool",
            next="flatten it with qemu-img convert, or copy the backing file into the pool",
        )


def _inside(path: str, pool_path: str) -> bool:
    """Whether the path is a plain file name, or lies in the pool's own folder."""
    folder = posixpath.dirname(posixpath.join(pool_path, path))
    return ":" not in path and posixpath.normpath(folder) == posixpath.normpath(pool_path)
