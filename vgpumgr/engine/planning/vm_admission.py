"""Admission of requested VMs: tried now, queued, or refused, for good or by a quota. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from vgpumgr.engine.inventory.fleet_without import fleet_without
from vgpumgr.engine.inventory.host_supply import NOT_REACHED, NOT_READ
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.planning.licence_limits import without_seat
from vgpumgr.model.apply_plan import QueuedVm
from vgpumgr.model.errors import (
    Conflict,
    HostUnreachable,
    NoPlacement,
    NotFound,
    QuotaExceeded,
    UsageError,
    VgpumgrError,
)
from vgpumgr.model.formats import counted
from vgpumgr.model.host import HostRecord
from vgpumgr.model.placement import (
    Change,
    Decision,
    NotPlaced,
    Placed,
    Reason,
    ReasonGroup,
    by_board,
)
from vgpumgr.model.queue import QueueEntry, QueueState
from vgpumgr.model.quota import (
    Amount,
    Excess,
    excess_text,
    held_by_tenants,
    quota_command,
    quota_exceeded,
)
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply
from vgpumgr.model.vm import PlacementPolicy, Terms, VmSpec
from vgpumgr.placement import Placer
from vgpumgr.placement.queue.tenant_shares import amount_of
from vgpumgr.placement.queue.waiting_order import cycle

NEVER = "never"
_SAID = "no host of the fleet could hold it, even when empty"
# What a change of layout would make room for is not said never to fit.
_NEEDS_LAYOUT = "needs-layout"


def never_fitting(view: LedgerView, specs: Iterable[VmSpec]) -> dict[str, NotPlaced]:
    """By name, the VMs that can never fit; where VMs start together, all of the group. Empty while
    a host was never probed: its capacity is unknown.
    """
    wanted = list(specs)
    if not wanted or not view.hosts or any(host.facts is None for host in view.hosts):
        return {}
    fleet = _emptied(view)
    found: dict[str, NotPlaced] = {}
    for group in _groups(wanted):
        placer = Placer(fleet, PlacementPolicy.BREADTH_FIRST)
        for spec in group:
            decision = placer.decide(_bare(spec))
            if isinstance(decision, Placed):
                placer.commit(decision)
            elif all(each.code != _NEEDS_LAYOUT for each in decision.reasons):
                found |= {each.name: _never(each, decision.reasons) for each in group}
                break
    return found


def _groups(specs: Sequence[VmSpec]) -> Iterable[Sequence[VmSpec]]:
    """Groups of VMs that start together; every other VM is a group of its own."""
    groups: dict[str, list[VmSpec]] = {}
    for spec in specs:
        together = spec.queue.together if spec.queue else ""
        groups.setdefault(f"together {together}" if together else spec.name, []).append(spec)
    return groups.values()


def _bare(spec: VmSpec) -> VmSpec:
    """The VM's size alone: disks, images and networks may yet come to a host."""
    return replace(spec, disks=(), nics=(), cloud_init=None)


def _never(spec: VmSpec, reasons: Sequence[Reason]) -> NotPlaced:
    hint = "`queue: {await_hosts: true}` lets it wait for new hosts"
    said = Reason(code=NEVER, host="", text=f"{_SAID}; {hint}")
    return NotPlaced(request=spec, reasons=(said, *reasons))


def _emptied(view: LedgerView) -> Fleet:
    """The fleet without any VM, ours or foreign, and without any reason against VMs."""
    alone = replace(view, hosts=tuple(_without_strangers(host, view) for host in view.hosts))
    fleet = fleet_without(alone, {vm.id for vm in view.vms})
    return Fleet(hosts=tuple(map(_open, fleet.hosts)))


def _without_strangers(host: HostRecord, view: LedgerView) -> HostRecord:
    assert host.facts is not None, "every host was probed"
    ours = {each.device for each in view.allocations if each.host == host.name}
    names = {vm.name for vm in view.vms if vm.host == host.name}
    facts = replace(
        host.facts,
        domains=tuple(each for each in host.facts.domains if each.name in names),
        mdevs=tuple(each for each in host.facts.mdevs if each.uuid in ours),
    )
    return replace(host, facts=facts)


def _open(host: HostSupply) -> HostSupply:
    return replace(host, blocked="", gpus=tuple(map(_whole, host.gpus)))


def _whole(gpu: GpuSupply) -> GpuSupply:
    return replace(gpu, blocked="", available={})


@dataclass(frozen=True, slots=True)
class Admission:
    """New VMs: ``tried`` are placed now, ``waiting`` has the others by name with the reason."""

    fresh: tuple[VmSpec, ...]
    tried: tuple[VmSpec, ...]
    waiting: Mapping[str, str]

    def without(self, waits: Iterable[QueuedVm], decisions: Iterable[Decision]) -> Admission | None:
        """The admission without VMs that wait for others although there was a place for them, so
        that others can have it. None where there are no such VMs.
        """
        back = {each.vm.name: each.why for each in waits}
        if not any(isinstance(e, Placed) and e.request.name in back for e in decisions):
            return None
        tried = tuple(spec for spec in self.tried if spec.name not in back)
        return Admission(self.fresh, tried, {**self.waiting, **back})


def admit(fresh: Sequence[VmSpec], queue: Sequence[QueueEntry]) -> Admission:
    """The admission of new VMs: while VMs wait, a new one waits behind them."""
    before = [each for each in queue if each.state is QueueState.WAITING]
    known = {each.name for each in before}
    tried: list[VmSpec] = []
    waiting: dict[str, str] = {}
    for spec in fresh:
        if spec.queue is None:
            tried.append(spec)
        elif spec.name in known:
            waiting[spec.name] = "it is queued already"
        elif spec.queue.after:
            waiting[spec.name] = f"after {', '.join(spec.queue.after)}"
        elif before:
            waiting[spec.name] = f"{len(before)} are queued already"
        else:
            tried.append(spec)
    return Admission(tuple(fresh), tuple(tried), waiting)


def with_waiting(
    asked: Admission, decisions: Sequence[Decision], queue: Sequence[QueueEntry]
) -> tuple[dict[str, Decision], tuple[QueuedVm, ...]]:
    """The decisions for tried VMs, less VMs that wait; and all waiting VMs."""
    waiting = {**asked.waiting, **_misfits(asked, decisions)}
    kept = {each.request.name: each for each in decisions if each.request.name not in waiting}
    before = {each.name: each for each in queue if each.state is QueueState.WAITING}
    here = [spec for spec in asked.fresh if spec.name in waiting]
    new = [_place(spec, inf) for spec in here if spec.name not in before]
    line = sorted([*(_place(each.vm, each.since) for each in before.values()), *new])
    names = [name for *_, name in line]
    waits = tuple(
        QueuedVm(
            vm=spec,
            position=names.index(spec.name) + 1,
            why=waiting[spec.name],
            new=spec.name not in before,
        )
        for spec in here
    )
    return kept, waits


def _place(spec: VmSpec, since: float) -> tuple[int, float, str]:
    """The sort key of a place in the queue: by priority, then by the longest wait."""
    return -(spec.queue or Terms()).priority, since, spec.name


def _misfits(asked: Admission, decisions: Sequence[Decision]) -> dict[str, str]:
    """VMs that may wait and have no place; of VMs that start together, all."""
    refused = {
        each.request.name: _nearest(each) for each in decisions if isinstance(each, NotPlaced)
    }
    held_up = {*refused, *asked.waiting}
    groups = {
        spec.queue.together for spec in asked.fresh if spec.queue and spec.name in held_up
    } - {""}
    return {
        spec.name: refused.get(spec.name)
        or f"not enough capacity yet for all of {spec.queue.together}"
        for spec in asked.tried
        if spec.queue and (spec.name in refused or spec.queue.together in groups)
    }


def _nearest(refused: NotPlaced) -> str:
    """One line; ``explain`` has all of them."""
    groups = by_board(refused.reasons)
    more = f" (and {counted(len(groups) - 1, 'more reason')})" if len(groups) > 1 else ""
    return f"{groups[0].text}{more}" if groups else "no host is enrolled"


def require_known(desired: Iterable[VmSpec], history: Collection[QueueEntry]) -> None:
    """NotFound for a VM to wait for that never was in the queue, UsageError for VMs that wait for
    each other, Conflict for a VM that waits on other terms than its file says now.
    """
    asking = {spec.name: spec for spec in desired if spec.queue is not None}
    waiting = {each.name: each for each in history if each.state is QueueState.WAITING}
    known = {*asking, *(each.name for each in history)}
    for spec in asking.values():
        _require_known(spec, known)
        if spec.name in waiting and waiting[spec.name].vm != spec and not waiting[spec.name].vm_id:
            raise Conflict(
                f"{spec.name} waits in the queue with another definition",
                why="its file has changed since it was queued",
                next=f"vgpumgr queue cancel {spec.name}, then the same command again",
            )
    after = dict(_after([*(each.vm for each in waiting.values()), *asking.values()]))
    if after and (found := cycle(after)):
        raise UsageError(
            "circular dependency: VMs wait for each other to end",
            why=" → ".join((*found, found[0])),
            next="take one of them out of `after:`",
        )


def _require_known(spec: VmSpec, known: Collection[str]) -> None:
    for name in spec.queue.after if spec.queue else ():
        if name not in known:
            raise NotFound(
                f"{spec.name} depends on {name}, which is not in the queue",
                why="only a VM with `queue:` ends when its guest powers off",
                next="vgpumgr queue list; a VM of a document with replicas is called NAME-01",
            )


def _after(specs: Iterable[VmSpec]) -> Iterator[tuple[str, Sequence[str]]]:
    for spec in specs:
        if spec.queue and spec.queue.after:
            yield spec.name, spec.queue.after


QUOTA = "quota"


def within_quotas(view: LedgerView, decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions, in their order; a placement that its tenant may not have is refused."""
    limits = {each.tenant: each for each in view.quotas}
    if not limits:
        return list(decisions)
    used = held_by_tenants(view.vms, view.allocations, view.gpus, view.images)
    held: list[Decision] = []
    for each in decisions:
        tenant = each.request.tenant
        if isinstance(each, Placed) and tenant in limits:
            before, asked = used.get(tenant, Amount()), amount_of(each)
            if found := limits[tenant].exceeded_by(before, asked):
                held.append(NotPlaced(request=each.request, reasons=tuple(map(_reason, found))))
                continue
            used[tenant] = before + asked
        held.append(each)
    return held


def quota_raise_command(refused: NotPlaced) -> str:
    """The command that raises a tenant's quota far enough for a refused VM."""
    return quota_command([_excess(reason) for reason in refused.reasons])


def beyond_quota(unplaced: Iterable[NotPlaced]) -> QuotaExceeded | None:
    """The error for the first that its quota alone refuses; None where there is none."""
    for each in unplaced:
        if each.reasons and all(reason.code == QUOTA for reason in each.reasons):
            error = quota_exceeded([_excess(reason) for reason in each.reasons])
            error.message = f"{each.request.name} cannot be placed: {error.message}"
            return error
    return None


def _reason(found: Excess) -> Reason:
    facts: dict[str, int | str] = {
        "tenant": found.tenant,
        "limit": found.limit,
        "used": found.used,
        "asked": found.asked,
        "allowed": found.allowed,
    }
    return Reason(code=QUOTA, host="", text=excess_text(found), facts=facts)


def _excess(reason: Reason) -> Excess:
    facts = reason.facts
    return Excess(
        tenant=str(facts["tenant"]),
        limit=str(facts["limit"]),
        used=int(facts["used"]),
        asked=int(facts["asked"]),
        allowed=int(facts["allowed"]),
    )


def no_placement(
    unplaced: Sequence[NotPlaced], most: int = 8, *, helps: Sequence[Change] = ()
) -> VgpumgrError:
    """One reason per rule and kind of GPU; unreachable hosts alone make it exit 6. Where a quota or
    the licence seats alone keep one of them out, that is the reason: the rest may fit once there
    are more.
    ``helps`` are changes that make the first one fit.
    """
    if withheld := beyond_quota(unplaced) or without_seat(unplaced):
        return withheld
    first = unplaced[0]
    groups = _nearest_groups(first.reasons)
    texts = [_text(group) for group in groups[:most]]
    rest = len(first.reasons) - sum(len(group.reasons) for group in groups[:most])
    lines = [*texts, *([f"and {rest} more GPUs or hosts"] if rest > 0 else [])]
    lines += [f"it fits {change.words}" for change in helps[:1]]
    others = f" and {len(unplaced) - 1} more" if len(unplaced) > 1 else ""
    unread = bool(first.reasons) and all(_unread(reason) for reason in first.reasons)
    kind = HostUnreachable if unread else NoPlacement
    return kind(
        f"{first.request.name}{others} cannot be placed",
        why="; ".join(lines) or "no host is enrolled",
        next="vgpumgr doctor" if unread else f"vgpumgr explain -f FILE --vm {first.request.name}",
    )


def _nearest_groups(reasons: Sequence[Reason]) -> list[ReasonGroup]:
    """The far ones only where all are far."""
    groups = by_board(reasons)
    return [group for group in groups if not group.far] or list(groups)


def _text(group: ReasonGroup) -> str:
    """The sentence of a GPU names no host: PCI addresses repeat on every one."""
    nearest = group.nearest
    words = (each.strip(":,") for each in nearest.text.split())
    named = not nearest.host or nearest.host in words
    text = nearest.text if named and not nearest.gpu else f"{nearest.host}: {nearest.text}"
    return f"{text} (and {group.others})" if group.others else text


def _unread(reason: Reason) -> bool:
    return any(words in reason.text for words in (NOT_REACHED, NOT_READ))
