"""What `doctor` says of notifications: which are paused or fail, and settings that do not agree."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.app.config import Config
from vgpumgr.app.notifications.mail_server import mail_server
from vgpumgr.model.errors import UsageError
from vgpumgr.model.examination import CheckOutcome, Finding
from vgpumgr.model.formats import counted
from vgpumgr.model.ledger import Ledger


def notification_findings(ledger: Ledger, config: Config) -> Iterator[Finding]:
    """A finding for each rule by which nothing is sent; one line where all is well."""
    rules = ledger.notifications()
    if not rules:
        return
    found = [*_server_faults(config)]
    for each in rules:
        if each.failures:
            state = "paused" if each.paused_at is not None else "fails"
            tried = counted(each.failures, "attempt")
            yield Finding(
                check=f"notification {each.name}",
                mark=CheckOutcome.WARN,
                text=f"{state}: {tried} failed: {each.why}",
                next=f"vgpumgr notification test {each.name}",
            )
    yield from found
    if not found and not any(each.failures for each in rules):
        text = f"{counted(len(rules), 'rule')}, none fails"
        yield Finding(check="notifications", mark=CheckOutcome.OK, text=text)


def _server_faults(config: Config) -> Iterator[Finding]:
    why, next = "the settings name no mail server", "mail_server: mail.example.com:587"
    try:
        if mail_server(config) is not None:
            return
    except UsageError as error:
        why, next = error.message, error.next
    yield Finding(check="notifications", mark=CheckOutcome.BAD, text=why, next=next)
