"""A mail of the records that are to be told: one, however many they are. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

from vgpumgr.model.formats import counted
from vgpumgr.model.history import AuditRecord, record_json
from vgpumgr.model.json_times import time_text
from vgpumgr.model.notification import NOTICE, NotificationRule, Severity, severity_of

SHOWN = 100
"""Records in full; of the rest the numbers are told."""


@dataclass(slots=True)
class MailDigest:
    """Records that wait for one mail."""

    first: AuditRecord
    counts: Counter[str] = field(default_factory=Counter)
    shown: list[AuditRecord] = field(default_factory=list)
    worst: Severity = Severity.INFO

    def add(self, record: AuditRecord) -> None:
        """One more; records that say the same of the same thing are shown once."""
        self.counts[record.event] += 1
        found = severity_of(record.event)
        if found.rank > self.worst.rank:
            self.worst = found
        known = {_said(each) for each in self.shown} if len(self.shown) < SHOWN else ()
        if len(self.shown) < SHOWN and _said(record) not in known:
            self.shown.append(record)

    @property
    def critical(self) -> bool:
        """Is any of them critical?"""
        return self.worst is Severity.CRITICAL


def _said(record: AuditRecord) -> tuple[str, ...]:
    return record.event, record.host, record.vm, record.gpu, record.operation, record.detail


def subject_of(digest: MailDigest) -> str:
    """``critical: host-unreachable, pool-warns (3)``."""
    kinds = [
        f"{kind.removeprefix(NOTICE)}{f' ({count})' if count > 1 else ''}"
        for kind, count in digest.counts.most_common(4)
    ]
    more = len(digest.counts) - len(kinds)
    rest = f" and {counted(more, 'more kind')}" if more else ""
    return f"vgpumgr {digest.worst}: {', '.join(kinds)}{rest}"


def digest_json(digest: MailDigest, rule: NotificationRule) -> str:
    """The same digest as webhooks have it, with the records as streams have them."""
    found = {
        "notification": rule.name,
        "severity": str(digest.worst),
        "subject": subject_of(digest),
        "counts": dict(digest.counts.most_common()),
        "records": [json.loads(record_json(each)) for each in digest.shown],
    }
    return json.dumps(found, separators=(",", ":"))


def body_of(digest: MailDigest, rule: NotificationRule) -> str:
    """A line for each record, what comes to more than is shown, and where the rest is."""
    return "\n".join([*_lines(digest, rule), ""])


def _lines(digest: MailDigest, rule: NotificationRule) -> Iterator[str]:
    for each in digest.shown:
        about = [each.host, each.vm, each.gpu, each.operation[:8]]
        where = " ".join(filter(None, about))
        yield f"{time_text(each.at)}  {severity_of(each.event)}  {each.event}"
        yield f"    {': '.join(filter(None, (where, each.detail)))}"
    total = sum(digest.counts.values())
    if total > len(digest.shown):
        yield ""
        yield f"{counted(total, 'record')} in all, {len(digest.shown)} shown:"
        for kind, count in digest.counts.most_common():
            yield f"    {count} x {kind}"
    yield ""
    yield f"Told by the notification {rule.name}; vgpumgr audit list has the records."


def mail_of(
    subject: str, body: str, *, sender: str, to: tuple[str, ...], at: float, message_id: str
) -> EmailMessage:
    """The message; ``at`` is Unix time, ``message_id`` is the same at every attempt."""
    message = EmailMessage()
    message["Subject"] = subject
    message["From"] = Address(addr_spec=sender)
    message["To"] = tuple(Address(addr_spec=each) for each in to)
    message["Date"] = format_datetime(datetime.fromtimestamp(at, UTC))
    message["Message-ID"] = f"<{message_id}@vgpumgr>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(body)
    return message
