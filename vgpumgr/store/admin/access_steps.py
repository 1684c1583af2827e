"""Steps of the schema for access. A step once shipped never changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, TableClause, bindparam, column, select, table, update


def access_tables(connection: Connection) -> None:
    """Who holds which role, API tokens, login sessions."""
    for statement in (
        "CREATE TABLE role_binding (subject TEXT NOT NULL, role TEXT NOT NULL, "
        "tenant TEXT NOT NULL, created_at FLOAT NOT NULL, created_by TEXT NOT NULL, "
        "PRIMARY KEY (subject, role, tenant))",
        "CREATE TABLE api_token (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, "
        "owner TEXT NOT NULL, owner_groups TEXT NOT NULL, secret_hash TEXT NOT NULL UNIQUE, "
        "role TEXT NOT NULL, tenant TEXT NOT NULL, created_at FLOAT NOT NULL, "
        "expires_at FLOAT NOT NULL, last_used_at FLOAT, revoked_at FLOAT)",
        "CREATE TABLE login_session (id TEXT NOT NULL PRIMARY KEY, "
        "secret_hash TEXT NOT NULL UNIQUE, user_name TEXT NOT NULL, user_groups TEXT NOT NULL, "
        "method TEXT NOT NULL, address TEXT NOT NULL, created_at FLOAT NOT NULL, "
        "seen_at FLOAT NOT NULL, expires_at FLOAT NOT NULL, ended_at FLOAT, why TEXT NOT NULL)",
        "CREATE UNIQUE INDEX api_token_name_once ON api_token (owner, name) "
        "WHERE revoked_at IS NULL",
        "CREATE INDEX ix_login_session_user_name ON login_session (user_name)",
    ):
        connection.exec_driver_sql(statement)


_OF_SPECS = ("vm", "queue", "request", "pool")
_COLUMNS = (*((name, "tenant") for name in (*_OF_SPECS, "ticket")), ("operation", "vm_tenant"))


def tenant_columns(connection: Connection) -> None:
    """Whose a VM, queue entry, request, pool, ticket or operation is, from the specs."""
    for name, column_ in _COLUMNS:
        for statement in (
            f"ALTER TABLE {name} ADD COLUMN {column_} TEXT NOT NULL DEFAULT ''",
            f"CREATE INDEX ix_{name}_{column_} ON {name} ({column_})",
        ):
            connection.exec_driver_sql(statement)
    for name in _OF_SPECS:
        rows = _rows(name, "id", "spec", "tenant")
        specs = connection.execute(select(rows.c.id, rows.c.spec)).all()
        _fill(connection, rows, {row.id: _tenant_of(name, row.spec) for row in specs})
    vm = _rows("vm", "id", "tenant")
    ticket = _rows("ticket", "id", "vm_id", "tenant")
    query = select(ticket.c.id, vm.c.tenant).join(vm, vm.c.id == ticket.c.vm_id)
    _fill(connection, ticket, {row.id: row.tenant for row in connection.execute(query)})
    task = _rows("task", "operation", "vm_id")
    query = select(task.c.operation, vm.c.tenant).join(vm, vm.c.id == task.c.vm_id).distinct()
    operation = _rows("operation", "id", "vm_tenant")
    found = ((row.operation, row.tenant) for row in connection.execute(query))
    _fill(connection, operation, _of_one(found))


def _rows(name: str, *columns: str) -> TableClause:
    return table(name, *(column(each) for each in columns))


def _tenant_of(name: str, spec: str) -> str:
    """What its spec says; a spec that cannot be read is left to `store check`."""
    try:
        found = json.loads(spec)
        found = found["desktop"] if name == "pool" else found
        return str(found.get("tenant", "default"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def _of_one(rows: Iterable[tuple[str, str]]) -> dict[object, str]:
    """By operation the tenant of all its VMs; where they are of several it has none."""
    found: dict[str, set[str]] = {}
    for operation, tenant in rows:
        found.setdefault(operation, set()).add(tenant)
    return {each: next(iter(tenants)) for each, tenants in found.items() if len(tenants) == 1}


def _fill(connection: Connection, rows: TableClause, tenants: Mapping[object, str]) -> None:
    whose = rows.c.get("tenant", rows.c.get("vm_tenant"))
    wanted = [{"in_id": id_, "in_tenant": tenant} for id_, tenant in tenants.items() if tenant]
    if wanted:
        filled = update(rows).where(rows.c.id == bindparam("in_id"))
        connection.execute(filled.values({whose: bindparam("in_tenant")}), wanted)


def name_indexes(connection: Connection) -> None:
    """What was called so at some time, and with which record an operation began."""
    for name in ("vm", "queue", "desktop"):
        connection.exec_driver_sql(f"CREATE INDEX ix_{name}_name ON {name} (name)")
    index_operations(connection)


def index_operations(connection: Connection) -> None:
    """An index of records by operation and event, which is one by operation, too."""
    connection.exec_driver_sql("CREATE INDEX audit_operation_event ON audit (operation, event)")
    connection.exec_driver_sql("DROP INDEX ix_audit_operation")
