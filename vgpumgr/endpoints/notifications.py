"""The endpoints of notifications: list, show, apply, test, resume, remove."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.audit.event_classes import EVENT_CLASSES
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import DocumentText, source_name
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing, Time
from vgpumgr.model.errors import HostUnreachable, NotFound, UsageError
from vgpumgr.model.holiday_calendar import Holidays, holidays_of
from vgpumgr.model.notification import Notification, NotificationRule
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.webhook import Webhook


class NotificationItem(TypedDict):
    """A rule: records whose kinds begin with one of ``events`` (none: all) and that matter as much
    as ``severity`` are mailed to ``to``, and sent to ``webhooks``; ``tenant`` ``*``: of all
    tenants. ``state`` is ``active``, ``quiet`` (mail waits now), ``failing`` or ``paused``, and
    ``why`` says the reason.
    """

    name: str
    to: list[str]
    webhooks: list[str]
    events: list[str]
    severity: str
    digest_s: float
    every_s: float
    time_zone: str
    quiet_hours: int
    holidays: str
    tenant: str
    state: str
    why: str
    failures: int
    retry_at: Time | None
    sent_at: Time | None
    mails: int
    behind: int


class MailAnswer(TypedDict):
    """Whether the mail server took a mail, and what it answered."""

    name: str
    taken: bool
    answer: str


def _item(it: Notification, end: int, holidays: Holidays) -> NotificationItem:
    rule = it.rule
    return {
        "name": rule.name,
        "to": list(rule.to),
        "webhooks": list(rule.webhooks),
        "events": list(rule.events),
        "severity": rule.severity.value,
        "digest_s": rule.digest_s,
        "every_s": rule.every_s,
        "time_zone": rule.zone,
        "quiet_hours": len(rule.quiet),
        "holidays": rule.holidays,
        "tenant": rule.tenant,
        "state": _state(it, holidays),
        "why": it.why,
        "failures": it.failures,
        "retry_at": it.retry_at,
        "sent_at": it.sent_at,
        "mails": it.mails,
        "behind": max(0, end - it.cursor),
    }


def _state(it: Notification, holidays: Holidays) -> str:
    if it.paused_at is not None:
        return "paused"
    if it.failures:
        return "failing"
    return "quiet" if it.rule.is_quiet(time.time(), holidays) else "active"


def _items(context: CallContext) -> list[NotificationItem]:
    ledger = context.app.ledger
    end, holidays = ledger.trail_since(None).end, holidays_of(ledger.calendars())
    return [_item(each, end, holidays) for each in ledger.notifications()]


def list_notifications(context: CallContext, _: Nothing) -> Result[ItemList[NotificationItem]]:
    """Every rule, by name."""
    return Result(answer={"items": _items(context)}, notes=_notes(context))


def _notes(context: CallContext) -> tuple[str, ...]:
    if context.app.config.mail_server or not context.app.ledger.notifications():
        return ()
    return ("no mail is sent: the setting mail_server names no server",)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneNotification:
    """A notification by its name."""

    name: Name


def _one(context: CallContext, name: str) -> Notification:
    for each in context.app.ledger.notifications():
        if each.name == name:
            return each
    raise NotFound(f"no notification {name}", next="vgpumgr notification list")


def show_notification(context: CallContext, asked: OneNotification) -> Result[NotificationItem]:
    """One of them."""
    _one(context, asked.name)
    [found] = [each for each in _items(context) if each["name"] == asked.name]
    return Result(answer=found, notes=_notes(context))


def apply_notifications(
    context: CallContext, asked: DocumentText
) -> Result[ItemList[NotificationItem]]:
    """Write the rules of a file, each over the one of its name; answers with all there are."""
    from vgpumgr.spec.notification_document import load_notifications

    text, ledger = asked.text.encode(errors="surrogatepass"), context.app.writable_ledger
    rules = load_notifications(text, source_name(asked.source))
    known = {each.name for each in ledger.calendars()}
    hooks = {each.name: each for each in ledger.webhooks()}
    for each in rules:
        _refuse_unknown(each, known)
        _refuse_webhooks(each, hooks)
    for each in rules:
        ledger.set_notification(each)
    return list_notifications(context, Nothing())


def _refuse_unknown(rule: NotificationRule, calendars: set[str]) -> None:
    if rule.holidays and rule.holidays not in calendars:
        raise NotFound(
            f"no calendar {rule.holidays}, which notification {rule.name} goes by",
            next="vgpumgr calendar list, or vgpumgr calendar apply -f FILE",
        )
    for each in rule.events:
        if not any(kind.startswith(each) for kind in EVENT_CLASSES):
            raise UsageError(
                f"notification {rule.name}: no record is of a kind that begins with {each!r:.80}",
                next="vgpumgr audit list shows kinds; like notice. or operation.failed",
            )


def _refuse_webhooks(rule: NotificationRule, hooks: Mapping[str, Webhook]) -> None:
    for name in rule.webhooks:
        if name not in hooks:
            raise NotFound(
                f"no webhook {name}, which notification {rule.name} is sent to",
                next="vgpumgr webhook list, or vgpumgr webhook add NAME --url URL",
            )
        if hooks[name].tenant not in {EVERY_TENANT, rule.tenant}:
            raise UsageError(
                f"webhook {name} is of tenant {hooks[name].tenant} alone",
                why=f"notification {rule.name} tells of other tenants, too",
                next=f"write tenant: {hooks[name].tenant}, or name another webhook",
            )


class NotificationName(TypedDict):
    """A notification."""

    name: str


def remove_notification(context: CallContext, asked: OneNotification) -> Result[NotificationName]:
    """Tell its addresses nothing more."""
    context.app.writable_ledger.remove_notification(asked.name)
    return Result(answer={"name": asked.name})


def resume_notification(context: CallContext, asked: OneNotification) -> Result[NotificationItem]:
    """Send by it again, at once and from where it was."""
    context.app.writable_ledger.set_notification(_one(context, asked.name).rule)
    return show_notification(context, asked)


def test_notification(context: CallContext, asked: OneNotification) -> Result[MailAnswer]:
    """Send one mail now, whatever its state and the hour."""
    from vgpumgr.app.notifications.mail_digest import mail_of
    from vgpumgr.app.notifications.mail_server import NotSent, mail_server

    app, rule, user = context.app, _one(context, asked.name).rule, context.who.principal.user
    if not rule.to:
        raise UsageError(
            f"notification {rule.name} sends no mail",
            next=f"vgpumgr webhook test {rule.webhooks[0]}",
        )
    server = mail_server(app.config)
    if server is None:
        raise UsageError(
            "the settings name no mail server",
            next="mail_server: mail.example.com:587, mail_from: vgpumgr@example.com",
        )
    text = f"A test of the notification {rule.name}, asked for by {user}.\n"
    made = mail_of(
        f"vgpumgr test: {rule.name}",
        text,
        sender=server.sender,
        to=rule.to,
        at=time.time(),
        message_id=f"test-{secrets.token_hex(8)}",
    )
    try:
        refused = server.send(made, rule.to, app.secrets)
    except NotSent as error:
        failed = HostUnreachable(
            f"the mail server did not take the mail of notification {rule.name}",
            why=str(error),
            next="the settings mail_*; vgpumgr secret list",
        )
        answer: MailAnswer = {"name": rule.name, "taken": False, "answer": str(error)}
        return Result(answer=answer, error=failed)
    said = refused or f"taken by {server.host}:{server.port} for {', '.join(rule.to)}"
    return Result(answer={"name": rule.name, "taken": True, "answer": said})


def _endpoint(
    verb: str, method: HttpMethod, path: str, needs: Permission, **more: Any
) -> Endpoint[Any, Any]:
    return Endpoint(
        name=f"notification.{verb}",
        method=method,
        path=f"/notifications{path}",
        permission=needs,
        **more,
    )


LIST_NOTIFICATIONS = _endpoint(
    *("list", HttpMethod.GET, "", Permission.NOTIFICATION_READ),
    summary="Rules by which mail is sent, by name.",
    asks=Nothing,
    answers=ItemList[NotificationItem],
    kind="NotificationList",
    work=list_notifications,
)
SHOW_NOTIFICATION = _endpoint(
    *("show", HttpMethod.GET, "/{name}", Permission.NOTIFICATION_READ),
    summary="A rule: its state, and how far it has come.",
    asks=OneNotification,
    answers=NotificationItem,
    kind="Notification",
    work=show_notification,
)
APPLY_NOTIFICATIONS = _endpoint(
    *("apply", HttpMethod.POST, ":apply", Permission.NOTIFICATION_WRITE),
    summary="Write the rules of a file.",
    asks=DocumentText,
    answers=ItemList[NotificationItem],
    kind="NotificationList",
    work=apply_notifications,
)
REMOVE_NOTIFICATION = _endpoint(
    *("remove", HttpMethod.DELETE, "/{name}", Permission.NOTIFICATION_WRITE),
    summary="Send no mail by a rule any longer.",
    asks=OneNotification,
    answers=NotificationName,
    kind="NotificationGone",
    work=remove_notification,
)
RESUME_NOTIFICATION = _endpoint(
    *("resume", HttpMethod.POST, "/{name}:resume", Permission.NOTIFICATION_WRITE),
    summary="Send by a rule again, from where it was.",
    asks=OneNotification,
    answers=NotificationItem,
    kind="Notification",
    work=resume_notification,
)
TEST_NOTIFICATION = _endpoint(
    *("test", HttpMethod.POST, "/{name}:test", Permission.NOTIFICATION_WRITE),
    summary="Send one mail, and say what the mail server answers.",
    asks=OneNotification,
    answers=MailAnswer,
    kind="MailAnswer",
    work=test_notification,
    runs=Runs.WORKER,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (
    *(LIST_NOTIFICATIONS, SHOW_NOTIFICATION, APPLY_NOTIFICATIONS),
    *(REMOVE_NOTIFICATION, RESUME_NOTIFICATION, TEST_NOTIFICATION),
)
