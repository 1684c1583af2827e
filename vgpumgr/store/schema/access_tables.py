"""Tables of access: role bindings, API tokens, login sessions, secrets. Of values only digests."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from vgpumgr.store.schema.columns import end, index_of_open, metadata, text, time

role_binding = Table(
    "role_binding",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("role", Text, primary_key=True),
    Column("tenant", Text, primary_key=True),
    time("created_at"),
    text("created_by"),
)

api_token = Table(
    "api_token",
    metadata,
    Column("id", Text, primary_key=True),
    text("name"),
    text("owner"),
    text("owner_groups"),
    Column("secret_hash", Text, nullable=False, unique=True),
    text("role"),
    text("tenant"),
    time("created_at"),
    time("expires_at"),
    end("last_used_at"),
    end("revoked_at"),
)
index_of_open(
    "api_token_name_once", api_token.c.owner, api_token.c.name, end=api_token.c.revoked_at
)

login_session = Table(
    "login_session",
    metadata,
    Column("id", Text, primary_key=True),
    Column("secret_hash", Text, nullable=False, unique=True),
    text("user_name", index=True),
    text("user_groups"),
    text("method"),
    text("address"),
    time("created_at"),
    time("seen_at"),
    time("expires_at"),
    end("ended_at"),
    text("why"),
)


secret = Table(
    "secret",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    text("digest"),
    time("set_at"),
    text("set_by"),
)
