"""Notifications: which records of the trail are told by mail, to whom, and when. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from vgpumgr.model.holiday_calendar import Holidays, date_at
from vgpumgr.model.pool_schedule import WeekHours, minute_of_week
from vgpumgr.model.role_binding import EVERY_TENANT

MOST_NOTIFICATIONS = 64
DIGEST_S, EVERY_S = 60.0, 900.0
_LOCAL, _LABEL = r"[A-Za-z0-9_%+'-]+", r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"(?=.{{1,64}}@.{{1,253}}$){_LOCAL}(\.{_LOCAL})*@{_LABEL}(\.{_LABEL})*")


def is_mail_address(text: str) -> bool:
    """Is it one that headers of mail may have, like ``ops@example.com``?"""
    return _ADDRESS.fullmatch(text) is not None


class Severity(StrEnum):
    """How much a record matters, the least first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 is the least."""
        return list(Severity).index(self)


NOTICE = "notice."
"""The beginning of what `serve` tells as notices: the other kinds are changes."""

# What `serve` tells and no change of the ledger says, by the words of its events.
NOTICES: Mapping[str, Severity] = MappingProxyType(
    {
        "backup-failed": Severity.CRITICAL,
        "backup-overdue": Severity.CRITICAL,
        "fragmented": Severity.INFO,
        "group-waits": Severity.WARNING,
        "host-evacuated": Severity.CRITICAL,
        "host-reached": Severity.INFO,
        "host-stuck": Severity.WARNING,
        "host-unreachable": Severity.CRITICAL,
        "host-waits": Severity.WARNING,
        "ledger-frozen": Severity.CRITICAL,
        "licence-short": Severity.WARNING,
        "licence-short-ended": Severity.INFO,
        "needs-operator": Severity.CRITICAL,
        "notification-failed": Severity.WARNING,
        "pool-warns": Severity.WARNING,
        "power": Severity.WARNING,
        "profile-disk-waits": Severity.WARNING,
        "purge-failed": Severity.WARNING,
        "queue-overdue": Severity.WARNING,
        "telemetry-failed": Severity.WARNING,
        "trail-unsealed": Severity.CRITICAL,
        "vm-backup-failed": Severity.WARNING,
        "vm-licensed": Severity.INFO,
        "vm-unlicensed": Severity.WARNING,
        "webhook-paused": Severity.WARNING,
    }
)
_CHANGES: Mapping[str, Severity] = MappingProxyType(
    {
        "access.refused": Severity.WARNING,
        "allocation.orphaned": Severity.WARNING,
        "backup.faulty": Severity.CRITICAL,
        "desktop.failed": Severity.WARNING,
        "desktop.lost": Severity.CRITICAL,
        "gpu.health-degraded": Severity.WARNING,
        "gpu.health-lost": Severity.CRITICAL,
        "gpu.health-quarantined": Severity.CRITICAL,
        "gpu.quarantined": Severity.CRITICAL,
        "operation.failed": Severity.WARNING,
        "operation.partly": Severity.WARNING,
    }
)


def severity_of(event: str) -> Severity:
    """Of a record of that kind; most changes are information."""
    if event.startswith(NOTICE):
        return NOTICES.get(event.removeprefix(NOTICE), Severity.WARNING)
    return _CHANGES.get(event, Severity.INFO)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRule:
    """Records whose kinds begin with one of ``events`` (none: all) and that matter as much as
    ``severity`` are told to the addresses ``to`` by mail, and to these ``webhooks`` by name.

    What comes within ``digest_s`` of the first is in one mail, and mails are ``every_s`` apart at
    least. In the ``quiet`` hours by the clock of ``zone``, and on the days of the calendar
    ``holidays``, mail waits, except where one of its records is critical. ``tenant``: only records
    of its things (``*``: all).
    """

    name: str
    to: tuple[str, ...]
    events: tuple[str, ...] = ()
    severity: Severity = Severity.WARNING
    digest_s: float = DIGEST_S
    every_s: float = EVERY_S
    quiet: tuple[WeekHours, ...] = ()
    zone: str = "UTC"
    holidays: str = ""
    tenant: str = EVERY_TENANT
    webhooks: tuple[str, ...] = ()

    def takes(self, event: str) -> bool:
        """Are records of that kind told?"""
        named = not self.events or event.startswith(self.events)
        return named and severity_of(event).rank >= self.severity.rank

    def is_quiet(self, now: float, holidays: Holidays) -> bool:
        """Is it a quiet hour, or a holiday, at Unix time ``now``?"""
        if self.holidays and date_at(now, self.zone) in holidays.get(self.holidays, ()):
            return True
        minute = minute_of_week(now, self.zone)
        return any(each.holds(minute) for each in self.quiet)

    def is_due(
        self, now: float, first: float, sent: float | None, holidays: Holidays, *, critical: bool
    ) -> bool:
        """May the mail be sent whose first record is of ``first``, the last one having been sent
        at ``sent``?
        """
        if now < first + self.digest_s or (sent is not None and now < sent + self.every_s):
            return False
        return critical or not self.is_quiet(now, holidays)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A rule, and how far it has come: ``cursor`` is the ``seq`` of the last record that is done
    with. While ``paused_at`` is set nothing is sent; ``why`` says the reason, or what became of the
    last of ``failures`` attempts, and another one is made at ``retry_at``. Times are Unix seconds.
    """

    rule: NotificationRule
    cursor: int = 0
    sent_at: float | None = None
    mails: int = 0
    failures: int = 0
    retry_at: float | None = None
    paused_at: float | None = None
    why: str = ""

    @property
    def name(self) -> str:
        """The rule's."""
        return self.rule.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that `serve` tells, of which no change of the ledger says anything."""

    kind: str
    text: str
    host: str = ""
    vm: str = ""
    gpu: str = ""
    operation: str = ""


class NotificationLedger(Protocol):
    """Notifications in the ledger. Every method is one transaction."""

    def notifications(self) -> tuple[Notification, ...]:
        """Every rule, by name."""

    def set_notification(self, rule: NotificationRule) -> None:
        """Write a rule over the one of its name, which is sent to again; a new one begins at the
        end of the trail. Conflict where there are too many.
        """

    def remove_notification(self, name: str) -> None:
        """Forget one; NotFound where there is none."""

    def notified(self, name: str, cursor: int, at: float | None) -> None:
        """Done with records up to ``cursor``, by a mail at that time (None: by none)."""

    def notification_failed(
        self, name: str, why: str, retry_at: float, *, pause: bool = False
    ) -> None:
        """A mail was not taken; another attempt is due at that time, or none."""

    def tell_notices(self, notices: tuple[Notice, ...]) -> None:
        """Write them to the trail."""
