"""The step of the schema for flavours. A step once shipped never changes."""

from __future__ import annotations

from sqlalchemy import Connection


def flavour_table(connection: Connection) -> None:
    """Sizes of VMs by name."""
    connection.exec_driver_sql(
        "CREATE TABLE flavour (name TEXT NOT NULL, spec TEXT NOT NULL, "
        "set_at FLOAT NOT NULL, set_by TEXT NOT NULL, PRIMARY KEY (name))"
    )
