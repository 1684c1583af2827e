"""Secrets in the ledger: who set which, and what uses it. Never a value; the trail has names."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql import ColumnElement

from vgpumgr import guests
from vgpumgr.model.codec import printable
from vgpumgr.model.errors import Conflict, InUse, NotFound
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.secret import MOST_SECRETS, SecretRecord, SecretReference
from vgpumgr.model.vm import VmSpec
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.ledger.hosts import list_hosts
from vgpumgr.store.ledger.pools import list_pools
from vgpumgr.store.ledger.vms import OPEN_VMS, vm_of
from vgpumgr.store.schema import secret
from vgpumgr.store.schema.columns import ALL_ROWS, decodes

_SECRETS = select(secret).order_by(secret.c.tenant, secret.c.name)


def list_secrets(
    connection: Connection, *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[SecretRecord, ...]:
    """Every secret, by tenant and name."""
    return tuple(secret_of(row) for row in connection.execute(_SECRETS.where(within)))


@decodes(secret)
def secret_of(row: Any) -> SecretRecord:
    """The secret of a whole row."""
    return SecretRecord(
        tenant=row.tenant,
        name=row.name,
        digest=row.digest,
        set_at=row.set_at,
        set_by=row.set_by,
    )


def list_references(connection: Connection) -> tuple[SecretReference, ...]:
    """What uses secrets, by tenant, name and user: fences of hosts (the fleet's), guests of VMs
    whose seed is not emptied, and pools, whose desktops are made of them.
    """
    found = [
        SecretReference(tenant=EVERY_TENANT, name=each.fence.secret, user=f"host {each.name}")
        for each in list_hosts(connection)
        if each.fence is not None and each.fence.secret
    ]
    for vm in map(vm_of, connection.execute(OPEN_VMS)):
        if vm.guest is None or not vm.guest.emptied_at:
            found += _of_guest(vm.spec, f"vm {vm.name}")
    for pool in list_pools(connection):
        found += _of_guest(pool.spec.desktop, f"pool {pool.name}")
    return tuple(sorted(found, key=lambda each: (each.tenant, each.name, each.user)))


def _of_guest(spec: VmSpec, user: str) -> list[SecretReference]:
    if spec.guest is None:
        return []
    names = guests.secrets_of(spec.guest, spec.os)
    return [SecretReference(tenant=spec.tenant, name=name, user=user) for name in names]


def set_secret(connection: Connection, stamp: Stamp, tenant: str, name: str, digest: str) -> None:
    """Note that a secret was set; Conflict where the tenant has too many."""
    values = {"digest": digest, "set_at": stamp.at, "set_by": printable(stamp.by)}
    changed = update(secret).where(_is(tenant, name)).values(values)
    if not connection.execute(changed).rowcount:
        _enter(connection, {"tenant": tenant, "name": name, **values})
    _tell(connection, stamp, "set", tenant, name)


def _enter(connection: Connection, row: dict[str, object]) -> None:
    tenant = str(row["tenant"])
    count = select(func.count()).select_from(secret).where(secret.c.tenant == tenant)
    if connection.execute(count).scalar_one() >= MOST_SECRETS:
        raise Conflict(
            f"{_whose(tenant)} {MOST_SECRETS} secrets already, which is the most",
            next=f"vgpumgr secret list; vgpumgr secret remove NAME --tenant '{tenant}'",
        )
    try:
        connection.execute(insert(secret), row)
    except IntegrityError as error:
        raise Conflict(
            "another process set the same secret just now", next="the same again"
        ) from error


def _whose(tenant: str) -> str:
    return "the fleet has" if tenant == EVERY_TENANT else f"tenant {tenant} has"


def remove_secret(
    connection: Connection, stamp: Stamp, tenant: str, name: str, *, force: bool = False
) -> None:
    """Forget a secret; NotFound, or InUse where something uses it, unless ``force``."""
    users = [
        each.user
        for each in list_references(connection)
        if (each.tenant, each.name) == (tenant, name)
    ]
    if users and not force:
        raise InUse(
            f"the secret {name} is in use",
            why=f"by {', '.join(users)}",
            next=f"take it out there first, or vgpumgr secret remove {name} --force",
        )
    if not connection.execute(delete(secret).where(_is(tenant, name))).rowcount:
        raise NotFound(f"no secret {name}", next="vgpumgr secret list")
    _tell(connection, stamp, "removed", tenant, name)


def _is(tenant: str, name: str) -> ColumnElement[bool]:
    return (secret.c.tenant == tenant) & (secret.c.name == name)


def _tell(connection: Connection, stamp: Stamp, what: str, tenant: str, name: str) -> None:
    whose = "of the fleet" if tenant == EVERY_TENANT else f"of tenant {tenant}"
    write(connection, stamp, [{"event": f"secret.{what}", "detail": f"{name} {whose}"}])
