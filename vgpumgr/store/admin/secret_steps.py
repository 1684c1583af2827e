"""The step of the schema for secrets. A step once shipped never changes."""

from __future__ import annotations

from sqlalchemy import Connection


def secret_table(connection: Connection) -> None:
    """Who set which secret, and a keyed digest of it."""
    connection.exec_driver_sql(
        "CREATE TABLE secret (tenant TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, "
        "set_at FLOAT NOT NULL, set_by TEXT NOT NULL, PRIMARY KEY (tenant, name))"
    )
