"""Webhooks in the ledger. The trail tells who added, paused, resumed and removed one, and of its
address no more than the machine.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import dump, load_list, printable
from vgpumgr.model.errors import Conflict, NameTaken, NotFound
from vgpumgr.model.webhook import MOST_OF_TENANT, MOST_WEBHOOKS, Webhook
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import audit, webhook
from vgpumgr.store.schema.columns import ALL_ROWS, decodes

_WHY = 500
_END = select(func.coalesce(func.max(audit.c.seq), 0))


def list_webhooks(
    connection: Connection, *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[Webhook, ...]:
    """Every webhook, by name."""
    query = select(webhook).where(within).order_by(webhook.c.name)
    return tuple(webhook_of(row) for row in connection.execute(query))


@decodes(webhook)
def webhook_of(row: Any) -> Webhook:
    """The webhook of a whole row."""
    values = dict(row._mapping)
    values["events"] = events = tuple(load_list(values["events"]))
    if not all(isinstance(each, str) for each in events):
        raise TypeError("its events are no texts")
    return Webhook(**values)


def add_webhook(connection: Connection, stamp: Stamp, wanted: Webhook) -> None:
    """Enter one that begins after the record of its own beginning."""
    if connection.execute(select(webhook.c.id).where(webhook.c.name == wanted.name)).first():
        raise NameTaken(f"webhook {wanted.name} exists already", next="another name")
    _refuse_too_many(connection, wanted.tenant)
    _tell(connection, stamp, "webhook.added", wanted)
    row = {
        "id": wanted.id,
        "name": printable(wanted.name),
        "tenant": wanted.tenant,
        "url": wanted.url,
        "events": dump(wanted.events),
        "cursor": connection.execute(_END).scalar_one(),
        "failures": 0,
        "why": "",
        "created_at": stamp.at,
        "created_by": printable(stamp.by),
    }
    connection.execute(insert(webhook), row)


def _refuse_too_many(connection: Connection, tenant: str) -> None:
    found = connection.execute(select(webhook.c.tenant)).scalars().all()
    for number, most, where in (
        (len(found), MOST_WEBHOOKS, "the fleet"),
        (found.count(tenant), MOST_OF_TENANT, f"tenant {tenant}"),
    ):
        if number >= most:
            raise Conflict(
                f"{where} has {number} webhooks already",
                why=f"the most is {most}",
                next="vgpumgr webhook remove NAME",
            )


def remove_webhook(connection: Connection, stamp: Stamp, webhook_id: str) -> None:
    """Forget one; NotFound where there is none."""
    gone = _one(connection, webhook_id)
    connection.execute(delete(webhook).where(webhook.c.id == webhook_id))
    _tell(connection, stamp, "webhook.removed", gone)


def pause_webhook(connection: Connection, stamp: Stamp, webhook_id: str, why: str) -> None:
    """Send nothing more to it; one that is paused stays so."""
    found = _one(connection, webhook_id)
    if found.paused_at is None:
        _change(connection, webhook_id, paused_at=stamp.at, retry_at=None, why=_short(why))
        _tell(connection, stamp, "webhook.paused", found, why)


def resume_webhook(connection: Connection, stamp: Stamp, webhook_id: str) -> None:
    """Send to it again, at once."""
    found = _one(connection, webhook_id)
    _change(connection, webhook_id, paused_at=None, retry_at=None, failures=0, why="")
    if found.paused_at is not None:
        _tell(connection, stamp, "webhook.resumed", found)


def webhook_rotated(connection: Connection, stamp: Stamp, webhook_id: str) -> None:
    """Tell that it has another secret; what it is, no ledger knows."""
    _tell(connection, stamp, "webhook.rotated", _one(connection, webhook_id))


def webhook_delivered(
    connection: Connection, webhook_id: str, cursor: int, at: float | None
) -> bool:
    """Done with records up to ``cursor``; False where it is paused or gone."""
    it = webhook.c.id == webhook_id
    active = it & webhook.c.paused_at.is_(None)
    connection.execute(update(webhook).where(it, webhook.c.cursor < cursor).values(cursor=cursor))
    if at is not None:
        connection.execute(update(webhook).where(it).values(delivered_at=at))
        well = {"failures": 0, "retry_at": None, "why": ""}
        connection.execute(update(webhook).where(active).values(well))
    return connection.execute(select(webhook.c.id).where(active)).first() is not None


def webhook_failed(connection: Connection, webhook_id: str, why: str, retry_at: float) -> None:
    """It did not take the next record; one that was paused meanwhile stays as it is."""
    failed = update(webhook).where(webhook.c.id == webhook_id, webhook.c.paused_at.is_(None))
    more = webhook.c.failures + 1
    connection.execute(failed.values(failures=more, retry_at=retry_at, why=_short(why)))


def _one(connection: Connection, webhook_id: str) -> Webhook:
    row = connection.execute(select(webhook).where(webhook.c.id == webhook_id)).one_or_none()
    if row is None:
        raise NotFound("the webhook is gone", next="vgpumgr webhook list")
    return webhook_of(row)


def _change(connection: Connection, webhook_id: str, **values: object) -> None:
    connection.execute(update(webhook).where(webhook.c.id == webhook_id).values(values))


def _short(why: str) -> str:
    return printable(why)[:_WHY]


def _tell(connection: Connection, stamp: Stamp, event: str, of: Webhook, why: str = "") -> None:
    """Paths and queries of addresses may hold what their receivers take for a proof."""
    where = f"{of.name} of {of.tenant} to {urlsplit(of.url).hostname}"
    detail = f"{where}: {_short(why)}" if why else where
    write(connection, stamp, [{"event": event, "detail": detail}])
