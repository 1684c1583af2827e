"""Notifications in the ledger, and the notices of `serve` in the trail."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from vgpumgr.model.codec import dump, load, printable
from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.notification import MOST_NOTIFICATIONS, Notice, Notification, NotificationRule
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import audit, notification
from vgpumgr.store.schema.columns import decodes

_WHY, _TEXT = 500, 2000
_END = select(func.coalesce(func.max(audit.c.seq), 0))
_FRESH = {"failures": 0, "retry_at": None, "paused_at": None, "why": ""}


def list_notifications(connection: Connection) -> tuple[Notification, ...]:
    """Every rule, by name."""
    query = select(notification).order_by(notification.c.name)
    return tuple(notification_of(row) for row in connection.execute(query))


@decodes(notification)
def notification_of(row: Any) -> Notification:
    """The notification of a whole row."""
    values = dict(row._mapping)
    rule = load(NotificationRule, values.pop("rule"))
    if rule.name != values.pop("name"):
        raise ValueError("its rule has another name")
    return Notification(rule=rule, **values)


def set_notification(connection: Connection, stamp: Stamp, rule: NotificationRule) -> None:
    """Write a rule over the one of its name; a new one begins after the record of its beginning."""
    text = dump(rule)
    is_it = notification.c.name == rule.name
    known = connection.execute(update(notification).where(is_it).values(rule=text, **_FRESH))
    if not known.rowcount:
        _refuse_too_many(connection)
    told = ", ".join((*rule.to, *rule.webhooks))
    detail = f"{rule.name}: {', '.join(rule.events) or 'all'} to {told}"
    write(connection, stamp, [{"event": "notification.set", "detail": printable(detail)}])
    if not known.rowcount:
        end = connection.execute(_END).scalar_one()
        row = {"name": rule.name, "rule": text, "cursor": end, "mails": 0, **_FRESH}
        connection.execute(insert(notification).values(row))


def _refuse_too_many(connection: Connection) -> None:
    count = connection.execute(select(func.count()).select_from(notification)).scalar_one()
    if count >= MOST_NOTIFICATIONS:
        raise Conflict(
            f"there are {count} notifications already",
            why=f"the most is {MOST_NOTIFICATIONS}",
            next="vgpumgr notification remove NAME",
        )


def remove_notification(connection: Connection, stamp: Stamp, name: str) -> None:
    """Forget one; NotFound where there is none."""
    if not connection.execute(delete(notification).where(notification.c.name == name)).rowcount:
        raise NotFound(f"no notification {name}", next="vgpumgr notification list")
    write(connection, stamp, [{"event": "notification.removed", "detail": name}])


def notified(connection: Connection, name: str, cursor: int, at: float | None) -> None:
    """Done with records up to ``cursor``, by a mail at that time (None: by none)."""
    it = notification.c.name == name
    forward = update(notification).where(it, notification.c.cursor < cursor)
    connection.execute(forward.values(cursor=cursor))
    if at is not None:
        more = notification.c.mails + 1
        sent = update(notification).where(it)
        connection.execute(sent.values(sent_at=at, mails=more, failures=0, retry_at=None, why=""))


def notification_failed(
    connection: Connection, name: str, why: str, retry_at: float, *, pause: bool = False
) -> None:
    """A mail was not taken; with ``pause`` there is no other attempt."""
    values = {
        "failures": notification.c.failures + 1,
        "retry_at": None if pause else retry_at,
        "why": printable(why)[:_WHY],
        "paused_at": retry_at if pause else None,
    }
    connection.execute(update(notification).where(notification.c.name == name).values(values))


def tell_notices(connection: Connection, stamp: Stamp, notices: tuple[Notice, ...]) -> None:
    """Write them to the trail."""
    write(
        connection,
        stamp,
        [
            {
                "event": f"notice.{each.kind}",
                "detail": printable(each.text)[:_TEXT],
                "host": printable(each.host),
                "vm": printable(each.vm),
                "gpu": printable(each.gpu),
                "operation": printable(each.operation),
            }
            for each in notices
        ],
    )
