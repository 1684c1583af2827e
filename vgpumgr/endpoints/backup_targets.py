"""The endpoints of backup targets: list, create, delete, and a search for backups on one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.access import Done
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing, Time
from vgpumgr.model.errors import Conflict, UsageError
from vgpumgr.model.formats import spanned
from vgpumgr.model.host import HostFacts
from vgpumgr.model.vm import NAME
from vgpumgr.model.vm_backup import (
    LEAST_EVERY_S,
    MOST_CHAIN,
    MOST_EVERY_S,
    MOST_KEPT,
    BackupState,
    BackupTarget,
    RetentionRules,
)

TargetName = Annotated[str, ParameterLimits(min_length=1, max_length=63, pattern=f"^{NAME}$")]
Kept = Annotated[int, ParameterLimits(ge=0, le=MOST_KEPT)]
VmPattern = Annotated[str, ParameterLimits(min_length=1, max_length=63, pattern=r"^[a-z0-9*?-]+$")]


class KeepItem(TypedDict):
    """Which scheduled backups of a VM are kept; all 0: every one."""

    last: int
    daily: int
    weekly: int


class TargetItem(TypedDict):
    """A target: the storage ``pool`` of that name on hosts. VMs whose names match ``vms`` are
    backed up ``every_s`` seconds; None: none is. ``backups`` counts what is on it.
    """

    name: str
    pool: str
    vms: list[str]
    every_s: float | None
    keep: KeepItem
    freeze: bool
    full_every: int
    set_at: Time
    set_by: str
    backups: int


def target_item(target: BackupTarget, backups: int) -> TargetItem:
    """The JSON of a target."""
    keep = target.keep
    return {
        "name": target.name,
        "pool": target.pool,
        "vms": list(target.vms),
        "every_s": target.every_s,
        "keep": {"last": keep.last, "daily": keep.daily, "weekly": keep.weekly},
        "freeze": target.freeze,
        "full_every": target.full_every,
        "set_at": target.set_at,
        "set_by": target.set_by,
        "backups": backups,
    }


def list_targets(context: CallContext, _: Nothing) -> Result[ItemList[TargetItem]]:
    """Every target, with the number of the caller's backups on it."""
    backups = context.reads.vm_backups()
    there = Counter(each.target for each in backups if each.state is BackupState.THERE)
    targets = context.app.ledger.backup_targets()
    items = [target_item(each, there[each.name]) for each in targets]
    if not context.scope.is_all:
        items = [{**each, "vms": [], "set_by": ""} for each in items]
    return Result(answer={"items": items})


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTarget:
    """A target, new or with ``replace`` in the place of the one of that name: its storage ``pool``;
    ``vms`` are
    patterns of VMs' names (``web-*``) that are backed up ``every_s`` seconds, and ``last``,
    ``daily`` and ``weekly`` say which of these backups are kept (all 0: every one). ``freeze``:
    guests with an agent have whole file systems at that moment. Each ``full_every``-th backup of a
    VM is a full one; the others hold what was written since, where QEMU can tell.
    """

    name: TargetName
    pool: Name
    vms: tuple[VmPattern, ...] = ()
    every_s: Annotated[float, ParameterLimits(ge=LEAST_EVERY_S, le=MOST_EVERY_S)] | None = None
    last: Kept = 0
    daily: Kept = 0
    weekly: Kept = 0
    freeze: bool = False
    full_every: Annotated[int, ParameterLimits(ge=1, le=MOST_CHAIN)] = 1
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTarget:
    """A target by its name."""

    name: Name


def set_target(context: CallContext, asked: SetTarget) -> Result[TargetItem]:
    """Write it down; Conflict where its pool would change under its backups, or a schedule would be
    lost by a command that did not mean to.
    """
    if re.fullmatch(NAME, asked.name) is None:
        raise UsageError(
            f"{asked.name!r:.80} is no name of a backup target", next="small letters, digits and -"
        )
    if bool(asked.vms) != (asked.every_s is not None):
        raise UsageError(
            "VMs to back up on schedule, and how often, go together",
            why="no VM is named" if asked.every_s is not None else "it is not said how often",
            next=f"vgpumgr backup target create {asked.name} --pool {asked.pool} "
            "--every 1d --vm 'web-*'",
        )
    ledger = context.app.writable_ledger
    target = BackupTarget(
        name=asked.name,
        pool=asked.pool,
        vms=asked.vms,
        every_s=asked.every_s,
        keep=RetentionRules(last=asked.last, daily=asked.daily, weekly=asked.weekly),
        freeze=asked.freeze,
        full_every=asked.full_every,
    )
    if not asked.replace:
        _refuse_other(target, ledger.backup_targets())
    ledger.set_backup_target(target)
    found = next(each for each in ledger.backup_targets() if each.name == asked.name)
    there = [each for each in ledger.vm_backups() if each.target == asked.name]
    return Result(answer=target_item(found, len(there)), notes=tuple(_lacking(context, asked.pool)))


def _refuse_other(target: BackupTarget, known: Iterable[BackupTarget]) -> None:
    """Conflict where the target of that name says something else: all that it says would go."""
    for each in known:
        own = replace(each, set_at=target.set_at, set_by=target.set_by)
        if each.name == target.name and own != target:
            raise Conflict(
                f"there is another backup target {target.name}",
                why="its pool, schedule and what is kept would all be those of this command",
                next="vgpumgr backup target list; then the same command with --replace",
            )


def _lacking(context: CallContext, pool: str) -> Iterator[str]:
    hosts = [each for each in context.reads.hosts() if each.facts]
    have = {each.name for each in hosts if each.facts and pool in _pools(each.facts)}
    lack = [each.name for each in hosts if each.name not in have]
    if lack:
        yield f"VMs of {spanned(lack)} cannot be backed up there: no storage pool {pool}"


def _pools(facts: HostFacts) -> frozenset[str]:
    return frozenset(each.name for each in facts.pools)


def delete_target(context: CallContext, asked: OneTarget) -> Result[Done]:
    """Forget it; InUse while there are backups on it."""
    context.app.writable_ledger.delete_backup_target(asked.name)
    return Result(answer={"name": "deleted", "names": [asked.name]})


class FoundItem(TypedDict):
    """A backup that was found: of which VM, made when, and its ``id``."""

    id: str
    vm: str
    created_at: Time


class SearchItem(TypedDict):
    """What was found on a target that the ledger did not know; ``unreadable`` are volumes that are
    no manifest, hosts that could not be asked are in ``silent``.
    """

    name: str
    found: list[FoundItem]
    unreadable: list[str]
    silent: list[str]


def search_target(context: CallContext, asked: OneTarget) -> Result[SearchItem]:
    """Enter the backups that lie on it and are not in the ledger."""
    with context.changing() as engine:
        report = engine.search_backups(asked.name)
    return Result(
        answer={
            "name": asked.name,
            "found": [
                {"id": each.id, "vm": each.vm, "created_at": each.created_at}
                for each in report.found
            ],
            "unreadable": list(report.unreadable),
            "silent": list(report.silent),
        }
    )


LIST_TARGETS = Endpoint(
    name="backup.target.list",
    method=HttpMethod.GET,
    path="/backup-targets",
    permission=Permission.VM_READ,
    summary="Where VMs are backed up to.",
    asks=Nothing,
    answers=ItemList[TargetItem],
    kind="BackupTargetList",
    work=list_targets,
    scoped=True,
)
SET_TARGET = Endpoint(
    name="backup.target.create",
    method=HttpMethod.PUT,
    path="/backup-targets/{name}",
    permission=Permission.BACKUP_WRITE,
    summary="Write down where VMs are backed up to, which ones by themselves, and what is kept.",
    asks=SetTarget,
    answers=TargetItem,
    kind="BackupTarget",
    work=set_target,
)
DELETE_TARGET = Endpoint(
    name="backup.target.delete",
    method=HttpMethod.DELETE,
    path="/backup-targets/{name}",
    permission=Permission.BACKUP_WRITE,
    summary="Forget a target that no backup is on.",
    asks=OneTarget,
    answers=Done,
    kind="Done",
    work=delete_target,
)
SEARCH_TARGET = Endpoint(
    name="backup.target.search",
    method=HttpMethod.POST,
    path="/backup-targets/{name}:search",
    permission=Permission.BACKUP_WRITE,
    summary="Enter backups that lie on a target and are not in the ledger.",
    asks=OneTarget,
    answers=SearchItem,
    kind="BackupSearch",
    work=search_target,
    runs=Runs.WORKER,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (
    LIST_TARGETS,
    SET_TARGET,
    DELETE_TARGET,
    SEARCH_TARGET,
)
