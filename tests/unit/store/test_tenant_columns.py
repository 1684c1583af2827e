"""Whose a row is: as its spec says, whoever writes it, and after a migration."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.unit.store import test_pools as pools
from tests.unit.store import test_tickets as tickets
from tests.unit.store import values
from tests.unit.store.lived import every_table
from tests.unit.store.test_queue import entry
from tests.unit.store.values import fleet, start, vm
from vgpumgr.model.vm import VmSpec
from vgpumgr.store import SqlLedger, migrate_ledger
from vgpumgr.store.schema import metadata

OF_SPECS = ("vm", "queue", "request", "pool")


def of(name: str, tenant: str, **fields: object) -> VmSpec:
    return VmSpec(name=name, vcpus=1, memory_mib=512, tenant=tenant, **fields)


def tenants(ledger: SqlLedger, table: str) -> list[str]:
    columns = metadata.tables[table].c
    with ledger._database.read() as connection:
        rows = connection.execute(
            select(columns.vm_tenant if table == "operation" else columns.tenant)
        )
        return sorted(rows.scalars())


def test_rows_are_of_the_tenant_that_their_spec_names(url: str) -> None:
    ledger = fleet(url)
    mine = vm("a", spec=of("a", "blue"))
    queued = entry("q")
    ledger.reserve(start(vms=[mine], queued=(replace(queued, vm=of("q", "red")),)))
    ledger.refuse([replace(values.refused("no"), spec=of("no", "green"))])
    assert tenants(ledger, "vm") == ["blue"]
    assert tenants(ledger, "queue") == ["red"]
    assert tenants(ledger, "request") == ["blue", "green"]
    changed = replace(mine, spec=of("a", "red"), generation=2)
    ledger.reserve(start(changed_vms=(changed,)))
    assert tenants(ledger, "vm") == ["red"]


def test_an_operation_is_of_the_tenant_of_all_its_vms(url: str) -> None:
    ledger = fleet(url)
    a, b, c = (
        vm(name, spec=of(name, of_)) for name, of_ in (("a", "blue"), ("b", "blue"), ("c", "red"))
    )
    ledger.reserve(start(vms=[a, b]))
    assert tenants(ledger, "operation") == ["blue"]
    ledger.reserve(start(vms=[c]))
    assert tenants(ledger, "operation") == ["blue", "red"]
    ledger.reserve(
        start(
            tasks=(values.task(a, "op-x"), values.task(c, "op-x")),
            operation=replace(start().operation, id="op-x"),
        )
    )
    assert tenants(ledger, "operation") == ["", "blue", "red"]
    ledger.reserve(start(operation=replace(start().operation, id="op-y")))
    assert tenants(ledger, "operation") == ["", "", "blue", "red"]


def test_a_ticket_is_of_its_vms_tenant(url: str) -> None:
    ledger = fleet(url)
    ledger.reserve(start(vms=[vm("desk", id="vm-desk", spec=of("desk", "blue"))]))
    ledger.ask_ticket(replace(tickets.asked(), vm_id="vm-desk"))
    assert tenants(ledger, "ticket") == ["blue"]


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Path]:
    """A ledger with a row in every table, from before the columns."""
    path = tmp_path / "l"
    every_table(path)
    values.close_all()
    with closing(sqlite3.connect(path)) as raw, raw:
        for name in (*OF_SPECS, "ticket", "operation"):
            column = "vm_tenant" if name == "operation" else "tenant"
            raw.execute(f"DROP INDEX ix_{name}_{column}")
            raw.execute(f"ALTER TABLE {name} DROP COLUMN {column}")
        for index in ("ix_vm_name", "ix_queue_name", "ix_desktop_name", "audit_operation_event"):
            raw.execute(f"DROP INDEX {index}")
        raw.execute("CREATE INDEX ix_audit_operation ON audit (operation)")
        raw.execute("DROP INDEX ix_ticket_digest")
        raw.execute("ALTER TABLE gpu DROP COLUMN health")
        for column in ("kind", "digest", "login", "generation", "expires_at"):
            raw.execute(f"ALTER TABLE ticket DROP COLUMN {column}")
        raw.execute("ALTER TABLE vm DROP COLUMN snapshots")
        raw.execute("ALTER TABLE vm DROP COLUMN guest")
        raw.execute("ALTER TABLE vm DROP COLUMN nic_functions")
        for later in (
            *("seal", "checkpoint", "secret", "webhook", "flavour", "price_book", "licence"),
            *(
                "backup_target",
                "vm_backup",
                "power_budget",
                "power_cap",
                "notification",
                "calendar",
                "profile_disk",
            ),
        ):
            raw.execute(f"DROP TABLE {later}")
        raw.execute("UPDATE meta SET schema_version = 14")
    yield path


def told(path: Path, query: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as raw:
        return raw.execute(query).fetchall()


def test_a_migration_fills_them_from_the_specs(old: Path) -> None:
    with closing(sqlite3.connect(old)) as raw, raw:
        for id_, text in raw.execute("SELECT id, spec FROM vm").fetchall():
            spec = {**json.loads(text), "tenant": "blue" if id_ == "vm-desk" else "red"}
            raw.execute("UPDATE vm SET spec = ? WHERE id = ?", (json.dumps(spec), id_))
        text = raw.execute("SELECT spec FROM pool").fetchone()[0]
        spec = json.loads(text)
        spec["desktop"].pop("tenant")
        raw.execute("UPDATE pool SET spec = ?", (json.dumps(spec),))
        raw.execute("UPDATE queue SET spec = '{broken'")
    migrate_ledger(old)
    assert dict(told(old, "SELECT id, tenant FROM vm WHERE id = 'vm-desk'")) == {"vm-desk": "blue"}
    assert told(old, "SELECT DISTINCT tenant FROM vm WHERE id <> 'vm-desk'") == [("red",)]
    assert told(old, "SELECT DISTINCT tenant FROM pool") == [("default",)]
    assert told(old, "SELECT DISTINCT tenant FROM queue") == [("",)]
    of_desk = "operation WHERE id = (SELECT operation FROM task WHERE vm_id = 'vm-desk')"
    assert told(old, f"SELECT vm_tenant FROM {of_desk}") == [("blue",)]
    assert told(old, "SELECT DISTINCT vm_tenant FROM operation ORDER BY 1")[0] == ("",)


def test_pools(url: str) -> None:
    ledger, _ = pools.ledger_with(url, "cad-01")
    assert set(tenants(ledger, "pool")) == {ledger.pools()[0].spec.desktop.tenant}
