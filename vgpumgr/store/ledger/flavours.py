"""Flavours in the ledger: set, listed, and forgotten once nothing has them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.codec import dump, load_mapping, printable
from vgpumgr.model.errors import Conflict, InUse, NotFound
from vgpumgr.model.flavour import Flavour
from vgpumgr.model.formats import spanned
from vgpumgr.store.database.faults import not_found
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.ledger.pools import list_pools
from vgpumgr.store.ledger.vms import OPEN_VMS, vm_of
from vgpumgr.store.schema import flavour
from vgpumgr.store.schema.columns import decodes

MOST_FLAVOURS = 1_000
_FLAVOURS = select(flavour).order_by(flavour.c.name)


def list_flavours(connection: Connection) -> tuple[Flavour, ...]:
    """Every flavour, by name."""
    return tuple(flavour_of(row) for row in connection.execute(_FLAVOURS))


@decodes(flavour)
def flavour_of(row: Any) -> Flavour:
    """The flavour of a whole row."""
    spec = load_mapping(row.spec)
    host_class = str(spec.pop("class", ""))
    return Flavour(
        name=row.name, keys=spec, host_class=host_class, set_at=row.set_at, set_by=row.set_by
    )


def set_flavour(connection: Connection, stamp: Stamp, wanted: Flavour) -> None:
    """Write a flavour over the one of that name; Conflict where there are too many."""
    more = {"class": wanted.host_class} if wanted.host_class else {}
    spec = dump({**wanted.keys, **more})
    values = {"spec": spec, "set_at": stamp.at, "set_by": printable(stamp.by)}
    changed = update(flavour).where(flavour.c.name == wanted.name).values(values)
    if not connection.execute(changed).rowcount:
        _enter(connection, {"name": wanted.name, **values})
    write(connection, stamp, [{"event": "flavour.set", "detail": f"{wanted.name}: {spec}"}])


def _enter(connection: Connection, row: dict[str, object]) -> None:
    count = connection.execute(select(func.count()).select_from(flavour)).scalar_one()
    if count >= MOST_FLAVOURS:
        raise Conflict(
            f"there are {MOST_FLAVOURS} flavours already, which is the most",
            next="vgpumgr flavour list; vgpumgr flavour delete NAME",
        )
    try:
        connection.execute(insert(flavour), row)
    except IntegrityError as error:
        raise Conflict(
            "another process set the same flavour just now", next="the same again"
        ) from error


def delete_flavour(connection: Connection, stamp: Stamp, name: str) -> None:
    """Forget a flavour; NotFound, or InUse while a VM or a pool has it."""
    names = [row.name for row in connection.execute(_FLAVOURS)]
    if name not in names:
        raise not_found("flavour", name, names)
    if users := _users(connection, name):
        raise InUse(
            f"the flavour {name} is in use",
            why=f"by {spanned(users)}",
            next="their files without `flavour:`, or without them, applied first",
        )
    gone = connection.execute(delete(flavour).where(flavour.c.name == name)).rowcount
    if not gone:
        raise NotFound(f"no flavour {name}", next="vgpumgr flavour list")
    write(connection, stamp, [{"event": "flavour.deleted", "detail": name}])


def _users(connection: Connection, name: str) -> list[str]:
    vms = (vm_of(row) for row in connection.execute(OPEN_VMS))
    found = [vm.name for vm in vms if vm.spec.flavour == name]
    pools = [each.spec for each in list_pools(connection)]
    return found + [f"pool {each.name}" for each in pools if each.desktop.flavour == name]
