"""`pool apply`: a pool's file compared with the pool in the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from vgpumgr.engine.desktops.pool_size import unmakeable
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.pools.pool_changes import refuse_image, with_image
from vgpumgr.engine.storage.shared_storage import SHARED_KINDS
from vgpumgr.model.desktop import PoolRecord
from vgpumgr.model.errors import Conflict, NameTaken, NoPlacement, NotFound, QuotaExceeded
from vgpumgr.model.formats import spanned
from vgpumgr.model.host import StoragePool
from vgpumgr.model.pool import PoolSpec
from vgpumgr.model.role_binding import ALL_TENANTS, Scope

# What only desktops that are made from now on have.
_LATER = frozenset({"desktop", "naming"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChange:
    """The changes of a pool by its file (``new``: all of it), a line each, and warnings."""

    pool: str
    new: bool = False
    changes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Would anything change?"""
        return self.new or bool(self.changes)


def plan(context: EngineContext, spec: PoolSpec) -> PoolChange:
    """The change that :func:`put` would make; Conflict, NoPlacement or QuotaExceeded where it
    cannot.
    """
    before = _there(context, spec.name)
    view = context.view()
    _refuse(context, view, spec, before)
    warnings = (
        *_beyond_quota(view, spec, spec.size.max),
        *_nowhere(view, spec),
        *_without_profile_disks(view, spec),
    )
    if before is None:
        return PoolChange(pool=spec.name, new=True, warnings=warnings)
    return PoolChange(pool=spec.name, changes=tuple(changes(before.spec, spec)), warnings=warnings)


def _without_profile_disks(view: LedgerView, spec: PoolSpec) -> Iterator[str]:
    """Hosts whose desktops cannot have the disks of their users."""
    wanted = spec.profile_disk
    if wanted is None:
        return
    hosts = [
        host.name
        for host in view.hosts
        if host.facts and not any(_is_for_profiles(each, wanted.pool) for each in host.facts.pools)
    ]
    if hosts:
        yield (
            f"users on desktops of {spanned(hosts)} have no profile disk: no storage pool "
            f"{wanted.pool} there that hosts share"
        )


def _is_for_profiles(pool: StoragePool, name: str) -> bool:
    return pool.name == name and pool.active and pool.kind in SHARED_KINDS


def put(context: EngineContext, spec: PoolSpec, scope: Scope = ALL_TENANTS) -> PoolChange:
    """Write the pool down; `serve` does the rest. NameTaken where there is one of that name which
    is of no tenant of ``scope``.
    """

    def attempt() -> PoolChange:
        change, before = plan(context, spec), _there(context, spec.name)
        now = context.clock.now()
        if before is not None and before.spec.desktop.tenant not in scope:
            raise NameTaken(f"the name {spec.name} is taken", next="give the pool another name")
        if before is None:
            made = PoolRecord(id=context.new_uuid(), spec=spec, created_at=now)
            context.ledger.put_pool(made)
        elif change.any:
            context.ledger.put_pool(replace(with_image(context, before, spec.image), spec=spec))
        return change

    return until_current(attempt)


def _there(context: EngineContext, name: str) -> PoolRecord | None:
    return next((each for each in context.ledger.pools() if each.name == name), None)


def _refuse(
    context: EngineContext, view: LedgerView, spec: PoolSpec, before: PoolRecord | None
) -> None:
    if before is not None and before.leaving:
        raise Conflict(
            f"pool {spec.name} is being deleted",
            next=f"vgpumgr pool show {spec.name}; apply it again when it is deleted",
        )
    _refuse_names(context, view, spec, before)
    _refuse_calendars(context, spec)
    if before is None or spec.image not in {before.image, before.spec.image}:
        refuse_image(context, spec.image)
    if why := unmakeable(spec, build_fleet(view)):
        raise NoPlacement(
            f"no desktop of pool {spec.name} can ever be created", why=why, next="vgpumgr capacity"
        )
    for why in _beyond_quota(view, spec, spec.size.min):
        raise QuotaExceeded(
            f"pool {spec.name} needs at least {spec.size.min} desktops",
            why=why,
            next=f"vgpumgr quota set {spec.desktop.tenant}, or a smaller min",
        )


def _refuse_calendars(context: EngineContext, spec: PoolSpec) -> None:
    known = {each.name for each in context.ledger.calendars()} if spec.calendars else set()
    for name in sorted(spec.calendars - known):
        raise NotFound(
            f"no calendar {name}, which schedules of pool {spec.name} go by",
            next="vgpumgr calendar list, or vgpumgr calendar apply -f FILE",
        )


def _refuse_names(
    context: EngineContext, view: LedgerView, spec: PoolSpec, before: PoolRecord | None
) -> None:
    own = {each.name for each in context.ledger.desktops() if before and each.pool == before.id}
    others = {vm.name for vm in view.vms} | {entry.name for entry in view.queue}
    taken = sorted(filter(spec.naming.covers, others - own))
    if taken:
        raise Conflict(
            f"{taken[0]} exists already, and a desktop of {spec.name} could get that name",
            why=f"their names would be {spec.naming}",
            next="write another pattern: names: …",
        )
    for pool in context.ledger.pools():
        numbers = range(1, 2 * spec.size.max + 1)
        same = next(filter(pool.spec.naming.covers, map(spec.naming.name, numbers)), "")
        if pool.name != spec.name and same:
            raise Conflict(
                f"pools {pool.name} and {spec.name} would both have a desktop {same}",
                why=f"their names are {pool.spec.naming} and {spec.naming}",
                next="write another pattern: names: …",
            )


def _nowhere(view: LedgerView, spec: PoolSpec) -> list[str]:
    """An image that is known, and not there to be used."""
    found = next((each for each in view.images if each.reference == spec.image), None)
    pool = spec.desktop.disks[0].pool
    if found is None or any(pool in found.pools(host.name) for host in view.hosts):
        return []
    again = f"vgpumgr image import {found.source} --name {found.name} --version {found.version}"
    return [f"image {spec.image} is in storage pool {pool} of no host: {again}"]


def _beyond_quota(view: LedgerView, spec: PoolSpec, count: int) -> list[str]:
    """The excess over the tenant's quota at so many desktops, all else apart."""
    limit = next((each for each in view.quotas if each.tenant == spec.desktop.tenant), None)
    if limit is None or not count:
        return []
    parts = sum(each.count for each in spec.desktop.gpus)
    asked = {"vms": count, "vcpus": count * spec.desktop.vcpus, "gpus": count * parts}
    by_profile = {each.profile: count * each.count for each in spec.desktop.gpus if each.profile}
    found = [
        (name, number, getattr(limit, name))
        for name, number in asked.items()
        if getattr(limit, name) is not None and number > getattr(limit, name)
    ]
    found += [
        (name, number, limit.profiles[name])
        for name, number in by_profile.items()
        if name in limit.profiles and number > limit.profiles[name]
    ]
    return [
        f"{count} desktops take {number} {name}, tenant {limit.tenant} may hold {allowed}"
        for name, number, allowed in found
    ]


def changes(old: PoolSpec, new: PoolSpec) -> list[str]:
    """A line for each part of the file that differs."""
    changed = [
        each.name for each in fields(new) if getattr(old, each.name) != getattr(new, each.name)
    ]
    lines = []
    for name in changed:
        if name == "image":
            lines.append(f"image: {old.image} → {new.image}")
        elif name == "size":
            lines.append(f"size: {_size(old)} → {_size(new)}")
        elif name != "desktop" or _but_image(old) != _but_image(new):
            later = " (applies to desktops created from now on)" if name in _LATER else ""
            lines.append(f"{name.replace('_', ' ')} changes{later}")
    return lines


def _size(spec: PoolSpec) -> str:
    return f"min {spec.size.min}, spare {spec.size.spare}, max {spec.size.max}"


def _but_image(spec: PoolSpec) -> object:
    system, *more = spec.desktop.disks
    return replace(spec.desktop, disks=(replace(system, image=None), *more))
