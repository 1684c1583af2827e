"""`booking make` and `booking cancel`."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.engine.desktops.booked_capacity import desktops_at_a_time
from vgpumgr.engine.desktops.pool_size import conflict, serving_pool
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.desktop import Booking, PoolRecord
from vgpumgr.model.errors import Conflict, NotFound, UsageError
from vgpumgr.model.role_binding import ALL_TENANTS, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingRequest:
    """``count`` desktops of ``profile`` for ``group``, from ``start`` to before ``end``, in a pool
    of one of the tenants of ``scope``.
    """

    group: str
    profile: str
    count: int
    start: float
    end: float
    scope: Scope = ALL_TENANTS


def serving(
    context: EngineContext, group: str, profile: str, scope: Scope = ALL_TENANTS
) -> PoolRecord:
    """The pool of these tenants that serves such a booking; NotFound names similar pools."""
    own = (each for each in context.ledger.pools() if each.spec.desktop.tenant in scope)
    pools = {each.spec.name: each for each in own if not each.closing}
    wanted = Booking(id="", group=group, profile=profile, count=1, start=0.0, end=0.0)
    found = serving_pool(wanted, [each.spec for each in pools.values()])
    if found is not None:
        return pools[found.name]
    same = sorted(name for name, each in pools.items() if each.spec.profile == profile)
    why = f"{', '.join(same)}: of that profile, but not for {group}" if same else ""
    raise NotFound(
        f"no pool with {profile} is for the group {group}",
        why=why or f"no pool has desktops with {profile}",
        next="vgpumgr pool list; name the group in the pool's entitlement",
    )


def book(context: EngineContext, request: BookingRequest) -> Booking:
    """Enter a booking; Conflict where others, or the GPUs, leave no room for it."""
    now = context.clock.now()
    if request.end <= max(request.start, now):
        raise UsageError(
            "a booking ends after it began, and after now",
            next="write a later --to; times without an offset are by the pool's time zone",
        )
    pool = serving(context, request.group, request.profile, request.scope)
    made = Booking(
        id=context.new_uuid()[:8],
        group=request.group,
        profile=request.profile,
        count=request.count,
        start=request.start,
        end=request.end,
    )
    desktops = {each.vm_id for each in context.ledger.desktops() if each.vm_id}
    room = desktops_at_a_time(context.view(), pool.spec, desktops)
    others = [each for each in context.ledger.bookings() if each.end > now]
    if why := conflict(made, others, room):
        raise Conflict(
            f"pool {pool.name} cannot honour that booking",
            why=why,
            next=f"vgpumgr booking list; vgpumgr pool show {pool.name}",
        )
    context.ledger.book(made, pool.spec.desktop.tenant)
    return made
