"""Notifications over real SMTP on this machine: digests, quiet hours, retries, TLS, passwords."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from email.message import EmailMessage
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.mail_server import Mailbox, mail_server
from tests.unit.store import values
from tests.webhook_receiver import Receiver, receiving
from vgpumgr.app.config import Config
from vgpumgr.app.notifications import mail_server as product
from vgpumgr.app.notifications import notification_schedule
from vgpumgr.app.notifications.mail_digest import mail_of
from vgpumgr.app.notifications.notices import NoticeBuffer
from vgpumgr.app.notifications.notification_schedule import (
    MailPace,
    NotificationSchedule,
    scheduled_notifications,
)
from vgpumgr.app.secret_store import SecretStore
from vgpumgr.app.setting_values import MailSecurity
from vgpumgr.app.webhooks.delivery_schedule import webhook_secrets
from vgpumgr.app.webhooks.signed_message import new_secret
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.model.errors import UsageError
from vgpumgr.model.holiday_calendar import HolidayCalendar
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.notification import (
    Notification,
    NotificationRule,
    Severity,
    is_mail_address,
)
from vgpumgr.model.pool_schedule import WeekHours
from vgpumgr.model.secret import SecretValue
from vgpumgr.model.webhook import Webhook
from vgpumgr.store import open_ledger

QUICK = MailPace(first_s=5.0, longest_s=20.0, most=3)
RULE = NotificationRule(name="ops", to=("ops@example.com",), digest_s=60.0, every_s=900.0)


class Fleet:
    """A ledger whose notifications are sent at times that the test says."""

    def __init__(self, folder: Path, box: Mailbox) -> None:
        self.ledger: Ledger = open_ledger(folder / "l", now=lambda: self.now)
        self.now = 1_800_000_000.0  # a Friday, 8:00 UTC
        self.config = Config(
            ledger=str(folder / "l"),
            state_dir=folder,
            mail_server=f"127.0.0.1:{box.port}",
            mail_security=MailSecurity.NONE,
            mail_from="vgpumgr@example.com",
        )
        self.secrets = SecretStore(folder / "secrets")
        self.notices = NoticeBuffer()
        self.events: list[ControllerEvent] = []
        self.emit: Emit = self.events.append
        self.schedule = self.begun()

    def begun(self) -> NotificationSchedule:
        """One more process."""
        return NotificationSchedule(
            *(self.ledger, self.config, self.secrets, self.notices),
            *(self.emit, QUICK, lambda: self.now),
        )

    def tell(self, kind: EventKind, text: str, **about: str) -> None:
        self.notices.keep(ControllerEvent(kind=kind, text=text, **about))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.schedule.look()

    def one(self) -> Notification:
        [found] = self.ledger.notifications()
        return found


@pytest.fixture
def box() -> Iterator[Mailbox]:
    with mail_server() as made:
        yield made


@pytest.fixture
def fleet(tmp_path: Path, box: Mailbox) -> Iterator[Fleet]:
    made = Fleet(tmp_path, box)
    made.ledger.set_notification(RULE)
    yield made
    made.ledger.close()
    values.close_all()


def test_a_storm_is_one_mail(fleet: Fleet, box: Mailbox) -> None:
    fleet.tell(EventKind.HOST_UNREACHABLE, "h1 does not answer", host="h1")
    fleet.pass_time(0)
    for number in range(150):
        fleet.tell(EventKind.POOL_WARNS, f"pool cad: no room, {number}")
    for _ in range(50):
        fleet.tell(EventKind.POOL_WARNS, "pool cad: full")
    fleet.pass_time(59)
    assert box.mails == []
    fleet.pass_time(1)
    [mail] = box.mails
    assert mail["Subject"] == "vgpumgr critical: pool-warns (200), host-unreachable"
    assert (mail["From"], mail["To"]) == ("vgpumgr@example.com", "ops@example.com")
    text = mail.get_content()
    assert "critical  notice.host-unreachable" in text
    assert "h1: h1 does not answer" in text
    assert "201 records in all, 100 shown:" in text and "200 x notice.pool-warns" in text
    fleet.pass_time(3600)
    assert len(box.mails) == 1
    assert fleet.one().mails == 1


def test_mails_are_apart_and_nothing_is_lost_between_them(fleet: Fleet, box: Mailbox) -> None:
    fleet.tell(EventKind.POOL_WARNS, "first")
    fleet.pass_time(0)
    fleet.pass_time(60)
    fleet.tell(EventKind.POOL_WARNS, "second")
    fleet.pass_time(0)
    fleet.pass_time(600)
    assert len(box.mails) == 1
    fleet.pass_time(300)
    assert ["second" in each.get_content() for each in box.mails] == [False, True]


def test_only_what_was_asked_for_and_matters_is_told(fleet: Fleet, box: Mailbox) -> None:
    fleet.ledger.set_notification(
        replace(RULE, events=("notice.pool", "operation.failed"), severity=Severity.WARNING)
    )
    fleet.tell(EventKind.HOST_UNREACHABLE, "not this")
    fleet.tell(EventKind.DESKTOP_READY, "no notice at all")
    fleet.tell(EventKind.POOL_WARNS, "this")
    fleet.pass_time(0)
    fleet.pass_time(60)
    [mail] = box.mails
    assert mail["Subject"] == "vgpumgr warning: pool-warns"
    kinds = [each.event for each in fleet.ledger.audit(event="notice")]
    assert sorted(kinds) == ["notice.host-unreachable", "notice.pool-warns"]


def test_mail_waits_in_quiet_hours_and_on_holidays_unless_it_is_critical(
    fleet: Fleet, box: Mailbox
) -> None:
    """Told on Friday at 20:00 in Vienna; Monday is a holiday."""
    nights = WeekHours(days=(0, 1, 2, 3, 4), start=18 * 60, end=7 * 60)
    weekend = WeekHours(days=(5, 6), start=0, end=0)
    days = {"2027-01-18": "a holiday"}
    fleet.ledger.set_calendar(HolidayCalendar(name="vienna", days=days))
    fleet.ledger.set_notification(
        replace(RULE, quiet=(nights, weekend), zone="Europe/Vienna", holidays="vienna")
    )
    fleet.now += 11 * 3600
    fleet.tell(EventKind.POOL_WARNS, "pool cad: full")
    fleet.pass_time(0)
    hours = 0
    while not box.mails:
        fleet.pass_time(3600)
        hours += 1
        assert hours < 100
    local = "Tuesday, 7:00 in Vienna"
    assert hours == 83, local
    fleet.now += 12 * 3600
    fleet.tell(EventKind.LEDGER_FROZEN, "allocation is suspended")
    fleet.pass_time(0)
    fleet.pass_time(60)
    assert len(box.mails) == 2, "critical: at once"


def test_a_mail_that_is_not_taken_is_sent_again_ever_later_and_told_once(
    fleet: Fleet, box: Mailbox
) -> None:
    box.refuse["RCPT"] = ["450 later", "450 later"]
    fleet.tell(EventKind.POOL_WARNS, "pool cad: full")
    fleet.pass_time(0)
    fleet.pass_time(60)
    assert fleet.one().failures == 1 and "450 later" in fleet.one().why
    fleet.pass_time(4)
    assert fleet.one().failures == 1
    fleet.pass_time(1)
    assert fleet.one().failures == 2
    fleet.pass_time(10)
    assert (len(box.mails), fleet.one().failures, fleet.one().why) == (1, 0, "")
    assert [each.kind for each in fleet.events] == [EventKind.NOTIFICATION_FAILED]


def test_attempts_are_bounded_and_a_paused_one_goes_on_from_where_it_was(
    fleet: Fleet, box: Mailbox
) -> None:
    box.refuse["MAIL"] = ["451 full"] * 3
    fleet.tell(EventKind.POOL_WARNS, "pool cad: full")
    fleet.pass_time(0)
    for _ in range(10):
        fleet.pass_time(100)
    assert fleet.one().paused_at is not None and box.refuse["MAIL"] == []
    assert "is paused: 3 attempts failed" in fleet.events[-1].text
    fleet.ledger.set_notification(fleet.one().rule)
    fleet.pass_time(1)
    assert "pool cad: full" in box.mails[0].get_content()


def test_another_process_goes_on_and_sends_nothing_twice(fleet: Fleet, box: Mailbox) -> None:
    fleet.tell(EventKind.POOL_WARNS, "first")
    fleet.pass_time(0)
    fleet.schedule = fleet.begun()
    fleet.pass_time(60)
    assert len(box.mails) == 1
    fleet.schedule = fleet.begun()
    fleet.pass_time(3600)
    assert len(box.mails) == 1


def test_a_process_that_dies_after_the_mail_sends_the_same_message_again(
    fleet: Fleet, box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.tell(EventKind.POOL_WARNS, "first")
    fleet.pass_time(0)
    with monkeypatch.context() as dying:
        dying.setattr(type(fleet.ledger), "notified", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fleet.pass_time(60)
    fleet.schedule = fleet.begun()
    fleet.pass_time(1)
    assert len(box.mails) == 2
    assert len({each["Message-ID"] for each in box.mails}) == 1


def test_some_addresses_may_be_refused(fleet: Fleet, box: Mailbox) -> None:
    fleet.ledger.set_notification(replace(RULE, to=("gone@example.com", "ops@example.com")))
    box.refuse["RCPT"] = ["550 no such user"]
    fleet.tell(EventKind.POOL_WARNS, "pool cad: full")
    fleet.pass_time(0)
    fleet.pass_time(60)
    assert box.to == [["ops@example.com"]]
    [event] = fleet.events
    assert "gone@example.com (550 no such user)" in event.text


def test_a_refused_address_is_told_once_and_not_mailed_about_for_ever(
    fleet: Fleet, box: Mailbox
) -> None:
    fleet.emit = fleet.notices.telling(fleet.events.append)
    fleet.schedule = fleet.begun()
    fleet.ledger.set_notification(replace(RULE, to=("gone@example.com", "ops@example.com")))
    fleet.tell(EventKind.POOL_WARNS, "pool cad: full")
    fleet.pass_time(0)
    for _ in range(6):
        box.refuse["RCPT"] = ["550 no such user"]
        fleet.pass_time(1000)
    assert [each["Subject"] for each in box.mails] == [
        "vgpumgr warning: pool-warns",
        "vgpumgr warning: notification-failed",
    ]


def test_a_record_written_while_records_are_read_is_told_once(
    fleet: Fleet, box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.tell(EventKind.POOL_WARNS, "first")
    fleet.pass_time(0)
    end = fleet.ledger.trail_since(None)
    fleet.tell(EventKind.POOL_WARNS, "second")
    fleet.schedule = fleet.begun()
    with monkeypatch.context() as earlier:
        earlier.setattr(type(fleet.ledger), "trail_since", lambda *_: end)
        fleet.pass_time(1)
    for _ in range(2):
        fleet.pass_time(1000)
    assert [each["Subject"] for each in box.mails] == ["vgpumgr warning: pool-warns (2)"]


@pytest.mark.parametrize("security", [MailSecurity.STARTTLS, MailSecurity.TLS])
def test_a_password_is_sent_over_tls_alone(tmp_path: Path, security: MailSecurity) -> None:
    authority, certificate = Authority(tmp_path / "ca"), tmp_path / "server"
    certificate.mkdir()
    authority.issue("IP:127.0.0.1", certificate)
    secrets = SecretStore(tmp_path / "secrets")
    with secrets.replacing("*", "mail", SecretValue(b"s3cret\n")):
        pass
    with mail_server(certificate, at_once=security is MailSecurity.TLS) as box:
        box.user, box.password = "vgpumgr", "s3cret"
        config = Config(
            ledger="",
            state_dir=tmp_path,
            mail_server=f"127.0.0.1:{box.port}",
            mail_security=security,
            mail_from="a@example.com",
            mail_user="vgpumgr",
            mail_password="mail",
            mail_ca=certificate / "ca-cert.pem",
        )
        server = product.mail_server(config)
        assert server is not None
        message = product_mail()
        assert server.send(message, ("b@example.com",), secrets) == ""
        assert box.logins == [("vgpumgr", "s3cret", True)]
        distrusting = replace(server, ca=None)
        with pytest.raises(product.NotSent, match="certificate is not accepted"):
            distrusting.send(message, ("b@example.com",), secrets)
        box.password = "another"
        with pytest.raises(product.NotSent, match="login of vgpumgr is refused: 535") as caught:
            server.send(message, ("b@example.com",), secrets)
        assert "s3cret" not in str(caught.value)
        gone = replace(server, secret="none")
        with pytest.raises(product.NotSent, match="none"):
            gone.send(message, ("b@example.com",), secrets)
    assert len(box.mails) == 1


def product_mail() -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = "s"
    message.set_content("t")
    return message


def test_a_server_without_starttls_gets_no_password(tmp_path: Path, box: Mailbox) -> None:
    server = product.MailServer(
        host="127.0.0.1", port=box.port, security=MailSecurity.STARTTLS, sender="a@example.com"
    )
    with pytest.raises(product.NotSent, match="STARTTLS"):
        server.send(product_mail(), ("b@example.com",), SecretStore(tmp_path))
    assert box.logins == [] and box.mails == []


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"mail_ca": Path("/nowhere/ca.pem")}, "no file /nowhere/ca.pem"),
        ({"mail_from": ""}, "no sender"),
        ({"mail_from": "vGPUs <a@example.com>"}, "mail_from is no mail address"),
        ({"mail_server": "a:b:c"}, "no address"),
        ({"mail_server": "h:99999"}, "no address"),
        ({"mail_user": "u"}, "no secret"),
        ({"mail_user": "u", "mail_password": "p"}, "without TLS"),
    ],
)
def test_settings_that_do_not_agree_are_refused(settings: dict[str, Any], why: str) -> None:
    config = Config(
        ledger="",
        state_dir=Path(),
        mail_server="h",
        mail_from="a@example.com",
        mail_security=MailSecurity.NONE,
    )
    with pytest.raises(UsageError, match=why):
        product.mail_server(replace(config, **settings))


@pytest.mark.parametrize(
    "text",
    ["a..b@x.org", ".a@x.org", "a.@x.org", "a@x..org", "a@-x.org", "a\n@x.org"],
)
def test_an_address_that_no_mail_could_be_sent_to_is_refused(text: str) -> None:
    """One such would keep the mails of all the others."""
    assert not is_mail_address(text)


@pytest.mark.parametrize("text", ["ops@example.com", "a.b+c%d_e'f-@x.y-z.org", "root@localhost"])
def test_headers_take_what_is_a_mail_address(text: str) -> None:
    assert is_mail_address(text)
    sent = mail_of("s", "t", sender=text, to=(text,), at=0.0, message_id="m")
    assert sent["To"] == text


def test_nothing_waits_for_a_server_that_hangs(
    fleet: Fleet, box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notification_schedule, "_BEAT_S", 0.02)
    box.wait_s = 5.0
    fleet.ledger.set_notification(replace(RULE, digest_s=1.0))
    emit = fleet.notices.telling(fleet.events.append)
    began = time.monotonic()
    with scheduled_notifications(
        fleet.ledger, fleet.config, fleet.secrets, fleet.notices, fleet.events.append, QUICK
    ):
        fleet.now = 0
        emit(ControllerEvent(kind=EventKind.POOL_WARNS, text="pool cad: full"))
        while not threading.active_count() or not fleet.ledger.audit(event="notice"):
            assert time.monotonic() < began + 10
            time.sleep(0.01)
        for _ in range(1000):
            emit(ControllerEvent(kind=EventKind.POOL_WARNS, text="pool cad: full"))
        assert time.monotonic() - began < 4.0
        box.wait_s = 0.0


def test_a_server_that_never_comes_to_an_end_is_left(tmp_path: Path) -> None:
    """Each byte of its greeting comes in time, and they have no end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            caller, _ = listener.accept()
            with caller, suppress(OSError):
                while True:
                    caller.sendall(b"2")
                    time.sleep(0.02)

        thread = threading.Thread(target=drip)
        thread.start()
        server = product.MailServer(
            host="127.0.0.1",
            port=listener.getsockname()[1],
            security=MailSecurity.NONE,
            sender="a@example.com",
            exchange_s=0.2,
        )
        with pytest.raises(product.NotSent, match=r"took longer than 0\.2 s"):
            server.send(product_mail(), ("b@example.com",), SecretStore(tmp_path))
        thread.join()


@pytest.fixture
def hooked(fleet: Fleet) -> Iterator[tuple[Fleet, Receiver]]:
    """A rule that tells a webhook, too; its receiver is on this machine."""
    with receiving() as receiver:
        fleet.config = replace(fleet.config, webhook_networks=(ip_network("127.0.0.0/8"),))
        webhook_secrets(fleet.config).keep("id-chat", SECRET)
        fleet.ledger.add_webhook(Webhook(id="id-chat", name="chat", url=receiver.url))
        fleet.schedule = fleet.begun()
        fleet.ledger.set_notification(replace(RULE, webhooks=("chat",)))
        yield fleet, receiver


SECRET = new_secret()


def test_a_webhook_has_the_same_digest(hooked: tuple[Fleet, Receiver], box: Mailbox) -> None:
    fleet, receiver = hooked
    for number in range(3):
        fleet.tell(EventKind.POOL_WARNS, f"pool cad: no room, {number}")
    fleet.pass_time(0)
    fleet.pass_time(60)
    [mail], [told] = box.mails, receiver.received
    assert told.signed_by(SECRET)
    assert (told.event["subject"], told.event["severity"]) == (mail["Subject"], "warning")
    assert told.event["counts"] == {"notice.pool-warns": 3}
    assert told.event["records"][0]["detail"] == "pool cad: no room, 0"
    assert mail["Message-ID"] == f"<{told.id}@vgpumgr>"


def test_what_has_the_digest_is_left_out_of_the_next_attempt(
    hooked: tuple[Fleet, Receiver], box: Mailbox
) -> None:
    fleet, receiver = hooked
    receiver.answers = [500]
    fleet.tell(EventKind.POOL_WARNS, "pool cad: no room")
    fleet.pass_time(0)
    fleet.pass_time(60)
    assert (len(box.mails), fleet.one().failures) == (1, 1)
    assert "webhook chat" in fleet.one().why
    fleet.pass_time(60)
    assert (len(box.mails), len(receiver.received), fleet.one().failures) == (1, 2, 0)
    assert receiver.received[0].id == receiver.received[1].id


def test_a_rule_may_tell_webhooks_alone(hooked: tuple[Fleet, Receiver], box: Mailbox) -> None:
    fleet, receiver = hooked
    fleet.config = replace(fleet.config, mail_server="")
    fleet.ledger.set_notification(replace(RULE, to=(), webhooks=("chat",)))
    fleet.schedule = fleet.begun()
    fleet.tell(EventKind.POOL_WARNS, "pool cad: no room")
    fleet.pass_time(0)
    fleet.pass_time(60)
    assert (box.mails, len(receiver.received)) == ([], 1)


def test_a_webhook_that_is_gone_or_of_another_tenant_is_said(
    hooked: tuple[Fleet, Receiver],
) -> None:
    fleet, receiver = hooked
    webhook_secrets(fleet.config).keep("id-red", SECRET)
    red = Webhook(id="id-red", name="red", url=receiver.url, tenant="red")
    fleet.ledger.add_webhook(red)
    fleet.ledger.set_notification(replace(RULE, to=(), webhooks=("red",)))
    fleet.tell(EventKind.POOL_WARNS, "pool cad: no room")
    fleet.pass_time(0)
    fleet.pass_time(60)
    assert "of tenant red alone" in fleet.one().why
    fleet.ledger.remove_webhook("id-red")
    fleet.pass_time(60)
    assert "no webhook red" in fleet.one().why
    assert receiver.received == []
