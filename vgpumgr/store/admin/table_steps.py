"""Steps of the schema that add a table, or a column of its own kind. Once shipped none changes."""

from __future__ import annotations

from sqlalchemy import Connection


def secret_table(connection: Connection) -> None:
    """Who set which secret, and a keyed digest of it."""
    connection.exec_driver_sql(
        "CREATE TABLE secret (tenant TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, "
        "set_at FLOAT NOT NULL, set_by TEXT NOT NULL, PRIMARY KEY (tenant, name))"
    )


def flavour_table(connection: Connection) -> None:
    """Sizes of VMs by name."""
    connection.exec_driver_sql(
        "CREATE TABLE flavour (name TEXT NOT NULL, spec TEXT NOT NULL, "
        "set_at FLOAT NOT NULL, set_by TEXT NOT NULL, PRIMARY KEY (name))"
    )


def backup_tables(connection: Connection) -> None:
    """Where backups go, and which there are."""
    for statement in (
        "CREATE TABLE backup_target (name TEXT NOT NULL, spec TEXT NOT NULL, "
        "set_at FLOAT NOT NULL, set_by TEXT NOT NULL, PRIMARY KEY (name))",
        "CREATE TABLE vm_backup (id TEXT NOT NULL, vm_id TEXT NOT NULL, vm TEXT NOT NULL, "
        "tenant TEXT DEFAULT '' NOT NULL, target TEXT NOT NULL, pool TEXT NOT NULL, "
        "host TEXT NOT NULL, created_at FLOAT NOT NULL, moment TEXT NOT NULL, "
        "state TEXT NOT NULL, scheduled BOOLEAN NOT NULL, verified_at FLOAT NOT NULL, "
        "fault TEXT NOT NULL, task TEXT NOT NULL, parent TEXT NOT NULL, gone_at FLOAT, "
        "PRIMARY KEY (id))",
        "CREATE INDEX ix_vm_backup_tenant ON vm_backup (tenant)",
        "CREATE INDEX ix_vm_backup_task ON vm_backup (task)",
        "CREATE INDEX vm_backup_open ON vm_backup (created_at) WHERE gone_at IS NULL",
    ):
        connection.exec_driver_sql(statement)


def power_tables(connection: Connection) -> None:
    """What may be drawn where, and which GPUs are held below what they may have."""
    for statement in (
        "CREATE TABLE power_budget (name TEXT NOT NULL, spec TEXT NOT NULL, "
        "set_at FLOAT NOT NULL, PRIMARY KEY (name))",
        "CREATE TABLE power_cap (gpu TEXT NOT NULL, host TEXT NOT NULL, held TEXT NOT NULL, "
        "since FLOAT NOT NULL, PRIMARY KEY (gpu))",
    ):
        connection.exec_driver_sql(statement)


def guest_column(connection: Connection) -> None:
    """What is known of each VM's guest."""
    connection.exec_driver_sql("ALTER TABLE vm ADD COLUMN guest TEXT")


def nic_functions_column(connection: Connection) -> None:
    """The VFs of its host's NICs that each VM has."""
    connection.exec_driver_sql("ALTER TABLE vm ADD COLUMN nic_functions TEXT DEFAULT '[]' NOT NULL")


def profile_disk_table(connection: Connection) -> None:
    """Users' own disks, each attached to one VM at most."""
    connection.exec_driver_sql(
        "CREATE TABLE profile_disk (tenant TEXT NOT NULL, pool TEXT NOT NULL, "
        "user_name TEXT NOT NULL, storage_pool TEXT NOT NULL, volume TEXT NOT NULL, "
        "size_bytes BIGINT NOT NULL, keep BOOLEAN NOT NULL, made BOOLEAN NOT NULL, vm_id TEXT, "
        "generation INTEGER NOT NULL, PRIMARY KEY (tenant, pool, user_name), UNIQUE (vm_id))"
    )
