"""The pages of webhooks and notifications: where records of the trail are sent to."""

from __future__ import annotations

from vgpumgr.web.documents import SOURCE
from vgpumgr.web.listing import Column, Listing, NewThing, RowAction, list_page
from vgpumgr.web.page import PageRead
from vgpumgr.web.questions import Choice, Question, all_of, at, one

_QUOTAS = (PageRead("quotas", "quota.list", needed=False),)
_NAME = {"name": "name"}
_WEBHOOKS = Listing(
    (
        Column("Webhook", "name"),
        Column("Tenant", "tenant"),
        Column("Events", "events", "list"),
        Column("State", "state", "state"),
        Column("Why", "why"),
        Column("Behind", "behind", "number"),
        Column("Sent", "delivered_at", "when"),
        Column("URL", "url"),
    ),
    (
        RowAction("webhook.test", "Test", _NAME),
        RowAction("webhook.pause", "Pause", _NAME, only=("state", ("active", "failing"))),
        RowAction("webhook.resume", "Resume", _NAME, only=("state", ("paused", "failing"))),
        RowAction("webhook.rotate", "New secret", _NAME),
        RowAction("webhook.remove", "Remove", _NAME),
    ),
    (NewThing("webhook.add", "New webhook"),),
    hint="name, tenant, URL",
    intro="Records of the trail are sent to these URLs as they are written, signed.",
)

_RULE = """\
apiVersion: vgpumgr/v1
kind: Notification
name: ops
to: [ops@example.com]
events: [notice., gpu.health, operation.failed]
severity: warning
"""
_CALENDAR = """\
apiVersion: vgpumgr/v1
kind: Calendar
name: austria
days:
  - {day: 2026-12-25, name: Christmas Day}
"""
_NOTIFICATIONS = Listing(
    (
        Column("Notification", "name"),
        Column("Events", "events", "list"),
        Column("Severity", "severity"),
        Column("To", "to", "list"),
        Column("State", "state", "state"),
        Column("Why", "why"),
        Column("Mails", "mails", "number"),
        Column("Sent", "sent_at", "when"),
    ),
    (
        RowAction("notification.test", "Test", _NAME),
        RowAction("notification.resume", "Resume", _NAME, only=("state", ("paused", "failing"))),
        RowAction("notification.remove", "Remove", _NAME),
    ),
    (NewThing("notification.apply", "Set notifications", {"text": _RULE, "source": SOURCE}),),
    hint="name, address, event",
    intro="Mail of records that matter, by rules.",
)
_CALENDARS = Listing(
    (Column("Calendar", "name"),),
    (RowAction("calendar.remove", "Remove", _NAME),),
    (NewThing("calendar.apply", "Set calendars", {"text": _CALENDAR, "source": SOURCE}),),
    hint="name",
    intro="Holidays that pools and notifications go by.",
)

PAGES = (
    list_page("/webhooks", "Webhooks", "webhook.list", _WEBHOOKS, section="Access"),
    list_page(
        *("/notifications", "Notifications", "notification.list", _NOTIFICATIONS),
        section="Settings",
    ),
    list_page("/calendars", "Calendars", "calendar.list", _CALENDARS, section="Settings"),
)

_BACK = at("/webhooks")
QUESTIONS = (
    Question(
        endpoint="webhook.add",
        text=one("Send records to", "url"),
        button="Add it",
        back=_BACK,
        choices=(
            Choice("name", "Name", "text", required=True),
            Choice("url", "URL", "text", "https://HOST/PATH", required=True),
            Choice("events", "Events", "words", "vm. operation.failed; none: all"),
            Choice(
                *("tenant", "Tenant", "text", "Empty: all that you reach."),
                options=all_of("quotas", "tenant"),
            ),
        ),
        reads=_QUOTAS,
        intro="The secret that signs is shown once, on the next page.",
    ),
    Question(
        endpoint="notification.apply",
        text=lambda _: "Set notifications",
        button="Set them",
        back=at("/notifications"),
        intro="One of a name that there is becomes as this says, and goes on from where it was.",
        choices=(Choice("text", "Notifications, as YAML", "area"),),
    ),
    Question(
        endpoint="calendar.apply",
        text=lambda _: "Set calendars",
        button="Set them",
        back=at("/calendars"),
        intro="One of a name that there is becomes as this says: pools and notifications go by "
        "the new days at once.",
        choices=(Choice("text", "Calendars, as YAML", "area"),),
    ),
    Question(
        endpoint="notification.test",
        text=one("Send a test mail by"),
        button="Send it",
        back=at("/notifications"),
        intro="One mail, now; the next page says what the mail server answers.",
    ),
    Question(
        endpoint="notification.resume",
        text=one("Send again by"),
        button="Resume",
        back=at("/notifications"),
    ),
    Question(
        endpoint="notification.remove",
        text=one("Remove notification"),
        button="Remove",
        back=at("/notifications"),
        ends_something=True,
    ),
    Question(
        endpoint="calendar.remove",
        text=one("Remove calendar"),
        button="Remove",
        back=at("/calendars"),
        ends_something=True,
    ),
    Question(
        endpoint="webhook.test",
        text=one("Send a test to"),
        button="Send it",
        back=_BACK,
        intro="One signed message, now; the next page says what the receiver answers.",
    ),
    Question(
        endpoint="webhook.pause",
        text=one("Pause"),
        button="Pause",
        back=_BACK,
        choices=(Choice("why", "Why", "text"),),
        intro="What is written meanwhile is sent once it is resumed.",
    ),
    Question(endpoint="webhook.resume", text=one("Resume"), button="Resume", back=_BACK),
    Question(
        endpoint="webhook.remove",
        text=one("Remove webhook"),
        button="Remove",
        back=_BACK,
        ends_something=True,
    ),
)
