"""Power budgets in the ledger, and the caps that the controller has set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from vgpumgr.model.codec import dump, load
from vgpumgr.model.errors import Conflict
from vgpumgr.model.power import PowerBudget, PowerCap
from vgpumgr.store.database.faults import not_found
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import power_budget, power_cap
from vgpumgr.store.schema.columns import decodes

_BUDGETS = select(power_budget).order_by(power_budget.c.name)
_CAPS = select(power_cap).order_by(power_cap.c.host, power_cap.c.gpu)


def list_budgets(connection: Connection) -> tuple[PowerBudget, ...]:
    """Every budget, by name."""
    return tuple(budget_of(row) for row in connection.execute(_BUDGETS))


@decodes(power_budget)
def budget_of(row: Any) -> PowerBudget:
    """The budget of a whole row."""
    return replace(load(PowerBudget, row.spec), name=row.name)


def set_budgets(connection: Connection, stamp: Stamp, budgets: Sequence[PowerBudget]) -> None:
    """Write budgets over those of their names, all at once."""
    for budget in budgets:
        is_it = power_budget.c.name == budget.name
        values = {"spec": dump(budget), "set_at": stamp.at}
        if not connection.execute(update(power_budget).where(is_it).values(values)).rowcount:
            connection.execute(insert(power_budget).values(name=budget.name, **values))
    records = [{"event": "power.budget-set", "detail": _words(each)} for each in budgets]
    write(connection, stamp, records)


def remove_budget(connection: Connection, stamp: Stamp, name: str) -> None:
    """Forget a budget; NotFound where there is none, Conflict while it is a parent."""
    known = list_budgets(connection)
    names = [each.name for each in known]
    if name not in names:
        raise not_found("power", name, names)
    children = [each.name for each in known if each.parent == name]
    if children:
        raise Conflict(
            f"power budget {name} is the parent of {', '.join(children[:8])}",
            next="remove those first, or apply them with another parent",
        )
    connection.execute(delete(power_budget).where(power_budget.c.name == name))
    write(connection, stamp, [{"event": "power.budget-removed", "detail": name}])


def _words(budget: PowerBudget) -> str:
    under = f" under {budget.parent}" if budget.parent else ""
    return f"{budget.name}: {budget.watts} W{under}"


def list_caps(connection: Connection, host: str | None = None) -> tuple[PowerCap, ...]:
    """The GPUs that are held, by host and GPU."""
    wanted = _CAPS if host is None else _CAPS.where(power_cap.c.host == host)
    return tuple(cap_of(row) for row in connection.execute(wanted))


@decodes(power_cap)
def cap_of(row: Any) -> PowerCap:
    """The cap of a whole row."""
    held = load(PowerCap, row.held)
    return replace(held, gpu=row.gpu, host=row.host, since=row.since)


def set_cap(connection: Connection, stamp: Stamp, cap: PowerCap) -> None:
    """Write down that a GPU is to be held, before it is."""
    is_it = power_cap.c.gpu == cap.gpu
    values = {"host": cap.host, "held": dump(cap), "since": cap.since}
    if not connection.execute(update(power_cap).where(is_it).values(values)).rowcount:
        connection.execute(insert(power_cap).values(gpu=cap.gpu, **values))
    record = {"event": "power.capped", "gpu": cap.gpu, "host": cap.host, "detail": _held(cap)}
    write(connection, stamp, [record])


def lift_cap(connection: Connection, stamp: Stamp, gpu: str) -> None:
    """Forget the cap of a GPU, which is held no more; none is no error."""
    found = connection.execute(_CAPS.where(power_cap.c.gpu == gpu)).one_or_none()
    if found is None:
        return
    connection.execute(delete(power_cap).where(power_cap.c.gpu == gpu))
    write(connection, stamp, [{"event": "power.uncapped", "gpu": gpu, "host": found.host}])


def _held(cap: PowerCap) -> str:
    limit = f"{cap.limit_w} W" if cap.limit_w is not None else ""
    clocks = f"clocks up to {cap.clocks[1]} MHz" if cap.clocks else ""
    return f"{cap.why}: {', '.join(filter(None, (limit, clocks)))}"
