"""Disk images in versions, and where their copies lie."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Table, Text

from vgpumgr.store.schema.columns import end, metadata, text, time

image = Table(
    "image",
    metadata,
    Column("id", Text, primary_key=True),
    text("name"),
    text("version"),
    text("format"),
    Column("virtual_bytes", BigInteger, nullable=False),
    Column("file_bytes", BigInteger, nullable=False),
    text("sha256"),
    text("source"),
    time("created_at"),
    end("retired_at"),
)
Index("image_version_once", image.c.name, image.c.version, unique=True)

image_copy = Table(
    "image_copy",
    metadata,
    Column("id", Text, primary_key=True),
    Column("image", Text, ForeignKey(image.c.id), nullable=False),
    text("host"),
    text("pool"),
    text("state"),
    time("verified_at"),
    end("gone_at"),
)
Index(
    "image_copy_once",
    image_copy.c.image,
    image_copy.c.host,
    image_copy.c.pool,
    unique=True,
    sqlite_where=image_copy.c.gone_at.is_(None),
    postgresql_where=image_copy.c.gone_at.is_(None),
)
