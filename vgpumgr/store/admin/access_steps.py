"""Steps of the schema for access. A step once shipped never changes."""

from __future__ import annotations

from sqlalchemy import Connection


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
