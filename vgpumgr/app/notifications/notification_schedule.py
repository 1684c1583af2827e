"""Mail is sent of what is new: by `serve`, for each rule by one controller, in a thread of its own.

A rule's records wait for a mail from its cursor on. The cursor moves once the mail server has taken
the mail: a process that dies between the two sends it again, with the same Message-ID.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from vgpumgr.app.config import Config
from vgpumgr.app.notifications.mail_digest import (
    MailDigest,
    body_of,
    digest_json,
    mail_of,
    subject_of,
)
from vgpumgr.app.notifications.mail_server import MailServer, NotSent, mail_server
from vgpumgr.app.notifications.notices import NoticeBuffer
from vgpumgr.app.webhooks.delivery_schedule import message_sender
from vgpumgr.app.webhooks.receiver import NotTaken
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.engine.controller.retry_backoff import backed_off
from vgpumgr.model.actor import carried
from vgpumgr.model.errors import ClaimLost, UsageError, VgpumgrError
from vgpumgr.model.formats import counted
from vgpumgr.model.holiday_calendar import Holidays, holidays_of
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.notification import Notification
from vgpumgr.model.role_binding import EVERY_TENANT, Scope
from vgpumgr.model.secret import SecretReader

PAGE, PAGES = 200, 20
_MAIL = "@"  # no webhook is called so
_BEAT_S, _AGAIN_S, _END_S, _KEPT_S = 1.0, 10.0, 25.0, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MailPace:
    """After an attempt that failed the next is made ``first_s`` later, then after twice as long
    each time, up to ``longest_s``; after ``most`` that failed the notification is paused.
    """

    first_s: float = 30.0
    longest_s: float = 3600.0
    most: int = 30


@contextmanager
def scheduled_notifications(
    ledger: Ledger,
    config: Config,
    secrets: SecretReader,
    notices: NoticeBuffer,
    emit: Emit,
    pace: MailPace | None = None,
) -> Iterator[None]:
    """Notices go to the trail, and mail to people, while the block lasts."""
    schedule = NotificationSchedule(ledger, config, secrets, notices, emit, pace or MailPace())
    work = carried(schedule.run)
    thread = threading.Thread(target=work, name="vgpumgr-notifications", daemon=True)
    thread.start()
    try:
        yield
    finally:
        schedule.end()
        thread.join(_END_S)


def claim_of(name: str) -> str:
    """The name that the one controller claims which sends by that rule."""
    return f"notification:{name}"


@dataclass(slots=True)
class _Progress:
    """How far this process has come with a rule: ``seq`` is the last record that it has read,
    ``refused`` whether addresses were refused by the last mail that others took, ``taken`` what has
    this digest already, by mail or by the webhook's name: an attempt for the rest leaves it out.
    """

    rule: Notification
    seq: int
    digest: MailDigest | None = None
    kept_at: float = 0.0
    refused: bool = False
    taken: set[str] = field(default_factory=set)


class NotificationSchedule:
    """Reads the trail for each rule, and sends the mails that are due."""

    def __init__(
        self,
        ledger: Ledger,
        config: Config,
        secrets: SecretReader,
        notices: NoticeBuffer,
        emit: Emit,
        pace: MailPace,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._ledger = ledger
        self._config = config
        self._secrets = secrets
        self._notices = notices
        self._emit = emit
        self._pace = pace
        self._now = now
        self._hooks = message_sender(ledger, config)
        self._ending = threading.Event()
        self._progress: dict[str, _Progress] = {}
        self._failing = ""

    def end(self) -> None:
        """Send no other mail."""
        self._ending.set()

    def run(self) -> None:
        """Work until :meth:`end` is called or the ledger's claims are lost."""
        wait_s = 0.0
        while not self._ending.wait(wait_s):
            wait_s = _BEAT_S
            try:
                self.look()
            except ClaimLost:
                return  # told by the process that works on it
            except VgpumgrError:  # the ledger is away, which others tell
                wait_s = _AGAIN_S
            except Exception as defect:
                self._tell_fault(f"{type(defect).__name__}: {defect}")
                wait_s = _AGAIN_S
        with suppress(VgpumgrError):
            self._write_notices()

    def look(self) -> None:
        """One look: notices are written, and mails sent that are due."""
        self._write_notices()
        found = self._ledger.notifications()
        if not found:
            self._progress.clear()
            return
        server, holidays = self._server(), holidays_of(self._ledger.calendars())
        end, names = self._ledger.trail_since(None).end, {each.name for each in found}
        self._progress = {k: v for k, v in self._progress.items() if k in names}
        for each in found:
            if self._ending.is_set():
                return
            if each.paused_at is None and self._ledger.claim(claim_of(each.name)):
                self._round(each, end, server, holidays)

    def _write_notices(self) -> None:
        while notices := self._notices.take():
            self._ledger.tell_notices(notices)
            self._notices.done(notices)

    def _server(self) -> MailServer | None:
        try:
            return mail_server(self._config)
        except UsageError as error:
            self._tell_fault(f"{error.message}: {error.next}")
            return None

    def _round(
        self, notification: Notification, end: int, server: MailServer | None, holidays: Holidays
    ) -> None:
        known = self._progress.get(notification.name)
        if known is None or known.rule.rule != notification.rule:
            known = _Progress(notification, notification.cursor)
            self._progress[notification.name] = known
        known.rule = notification
        self._read(known, end)
        if known.digest is None:
            self._pass_over(known)
        elif server is None and known.rule.rule.to:
            return
        elif self._is_due(known, known.digest, holidays):
            self._send(known, known.digest, server)

    def _read(self, known: _Progress, end: int) -> None:
        """Records since, where the trail ends at ``end`` or later: many are read over several
        looks.
        """
        rule = known.rule.rule
        reads = self._ledger.within(Scope.of(rule.tenant))
        for _ in range(PAGES if end > known.seq else 0):
            page = reads.audit_after(known.seq, PAGE)
            for record in page:
                if rule.takes(record.event):
                    if known.digest is None:
                        known.digest = MailDigest(first=record)
                    known.digest.add(record)
            known.seq = page[-1].seq if page else known.seq
            if len(page) < PAGE:
                known.seq = max(known.seq, end)
                return

    def _pass_over(self, known: _Progress) -> None:
        """Nothing of it is told: that is written down now and then."""
        now = self._now()
        if known.seq > known.rule.cursor and now - known.kept_at >= _KEPT_S:
            known.kept_at = now
            self._ledger.notified(known.rule.name, known.seq, None)

    def _is_due(self, known: _Progress, digest: MailDigest, holidays: Holidays) -> bool:
        now, it = self._now(), known.rule
        if it.retry_at is not None and now < it.retry_at:
            return False
        return it.rule.is_due(now, digest.first.at, it.sent_at, holidays, critical=digest.critical)

    def _send(self, known: _Progress, digest: MailDigest, server: MailServer | None) -> None:
        """The mail, then each webhook; what has it already is left out."""
        it, now, refused = known.rule, self._now(), ""
        origin = self._ledger.trail_origin().replace("/", "-")
        message_id = f"{origin}-{it.name}-{digest.first.seq}"
        try:
            if server is not None and it.rule.to and _MAIL not in known.taken:
                refused = self._mail(it, digest, server, message_id)
                known.taken.add(_MAIL)
            for name in it.rule.webhooks:
                if name not in known.taken:
                    self._post(name, it, digest, message_id)
                    known.taken.add(name)
        except NotSent as fault:
            self._failed(it, fault)
            return
        self._ledger.notified(it.name, known.seq, now)
        known.digest, known.taken = None, set()
        if refused and not known.refused:  # what is told is a record, of which mail may be sent
            self._tell(f"notification {it.name}: {refused}", it.name)
        known.refused = bool(refused)

    def _mail(
        self, it: Notification, digest: MailDigest, server: MailServer, message_id: str
    ) -> str:
        """Which addresses were refused, in words."""
        message = mail_of(
            subject_of(digest),
            body_of(digest, it.rule),
            sender=server.sender,
            to=it.rule.to,
            at=self._now(),
            message_id=message_id,
        )
        return server.send(message, it.rule.to, self._secrets)

    def _post(self, name: str, it: Notification, digest: MailDigest, message_id: str) -> None:
        found = next((each for each in self._ledger.webhooks() if each.name == name), None)
        if found is None:
            raise NotSent(f"there is no webhook {name}")
        if found.tenant not in {EVERY_TENANT, it.rule.tenant}:
            raise NotSent(f"webhook {name} is of tenant {found.tenant} alone")
        try:
            self._hooks.post(found, digest_json(digest, it.rule), message_id)
        except (NotTaken, VgpumgrError) as error:
            raise NotSent(f"webhook {name}: {error}") from error

    def _failed(self, it: Notification, fault: NotSent) -> None:
        failures = it.failures + 1
        now, why = self._now(), str(fault)
        paused = failures >= self._pace.most
        again = now + backed_off(failures, self._pace.first_s, self._pace.longest_s)
        self._ledger.notification_failed(it.name, why, now if paused else again, pause=paused)
        if failures == 1:
            self._tell(f"notification {it.name} is tried again: {why}", it.name)
        if paused:
            tried = counted(failures, "attempt")
            self._tell(f"notification {it.name} is paused: {tried} failed: {why}", it.name)

    def _tell(self, text: str, name: str) -> None:
        next = f"vgpumgr notification test {name}"
        kind = EventKind.NOTIFICATION_FAILED
        self._emit(ControllerEvent(kind=kind, subject=name, text=text, next=next))

    def _tell_fault(self, why: str) -> None:
        """Once, until it is another."""
        if why != self._failing:
            self._failing = why
            kind = EventKind.NOTIFICATION_FAILED
            self._emit(ControllerEvent(kind=kind, text=f"no mail is sent: {why}"))
