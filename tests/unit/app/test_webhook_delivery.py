"""Webhooks over real HTTP on this machine: order, signatures, retries, pauses, tenants."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from unittest import mock

import pytest

from tests.two_tenants import BLUE, RED, TwoTenants, record
from tests.unit.store import values
from tests.webhook_receiver import Receiver, receiving, wait_for
from vgpumgr.app.config import Config
from vgpumgr.app.webhooks import delivery_schedule
from vgpumgr.app.webhooks.delivery import DeliveryPace, WebhookDelivery
from vgpumgr.app.webhooks.delivery_schedule import claim_of, scheduled_deliveries, webhook_secrets
from vgpumgr.app.webhooks.signed_message import new_secret, secret_key
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.model.history import record_json
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.quota import Quota
from vgpumgr.model.role_binding import Scope
from vgpumgr.model.webhook import Webhook
from vgpumgr.store import open_ledger

HERE = (ip_network("127.0.0.0/8"),)
QUICK = DeliveryPace(timeout_s=10.0, first_s=0.01, longest_s=0.05, most=4, kept_s=0.0)


class Fleet:
    """A ledger whose webhooks a controller delivers to."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "l"
        self.config = Config(ledger=str(self.path), state_dir=folder, webhook_networks=HERE)
        self.ledger: Ledger = open_ledger(self.path)
        self.events: list[ControllerEvent] = []
        self.secrets: dict[str, str] = {}

    def add(self, name: str, receiver: Receiver, *events: str, tenant: str = "*") -> Webhook:
        made = Webhook(id=f"id-{name}", name=name, url=receiver.url, events=events, tenant=tenant)
        self.secrets[name] = new_secret()
        webhook_secrets(self.config).keep(made.id, self.secrets[name])
        self.ledger.add_webhook(made)
        return made

    def change(self, *tenants: str) -> None:
        """A record of the trail for each."""
        for each in tenants:
            self.ledger.set_quota(Quota(tenant=each, gpus=1))

    @contextmanager
    def serving(self, pace: DeliveryPace = QUICK) -> Iterator[None]:
        with scheduled_deliveries(self.ledger, self.config, self.events.append, pace):
            yield

    def one(self, name: str = "w") -> Webhook:
        return next(each for each in self.ledger.webhooks() if each.name == name)

    def kinds(self) -> list[EventKind]:
        return [each.kind for each in self.events]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_schedule, "_BEAT_S", 0.02)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    made.ledger.close()
    values.close_all()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def tenants(receiver: Receiver) -> list[str]:
    return [json.loads(each)["tenant"] for each in receiver.details()]


def test_records_come_in_order_signed_and_as_the_stream_has_them(
    fleet: Fleet, receiver: Receiver
) -> None:
    fleet.change("before")
    fleet.add("w", receiver)
    names = [f"t-{number}" for number in range(30)]
    with fleet.serving():
        fleet.change(*names)
        got = receiver.until(30)
    assert tenants(receiver) == names
    assert all(each.signed_by(fleet.secrets["w"]) for each in got)
    assert not any(each.signed_by(new_secret()) for each in got)
    assert len({each.id for each in got}) == 30
    assert all("." not in each.id for each in got)
    written = fleet.ledger.audit_after(0, 100)[-30:]
    assert [each.body.decode() for each in got] == [record_json(each) for each in written]
    assert {each.headers["content-type"] for each in got} == {"application/json"}
    assert fleet.one().cursor == written[-1].seq


def test_only_the_kinds_that_were_asked_for_are_sent(fleet: Fleet, receiver: Receiver) -> None:
    fleet.add("w", receiver, "quota.deleted", "webhook.")
    with fleet.serving():
        fleet.change("a", "b")
        fleet.ledger.delete_quota("a")
        receiver.until(1)
    assert [each.event["event"] for each in receiver.received] == ["quota.deleted"]


def test_what_is_passed_over_in_between_loses_nothing(fleet: Fleet, receiver: Receiver) -> None:
    """Records of other kinds come one by one, and many at once; each webhook is sent its own."""
    with receiving() as other, fleet.serving(replace(QUICK, passed_s=0.0)):
        fleet.add("set", receiver, "quota.set")
        fleet.add("gone", other, "quota.deleted")
        for number in (1, 1, 5, 300, 1, 40):
            fleet.change(*(f"t-{each}" for each in range(number)))
            wait_for(lambda: fleet.one("gone").cursor == fleet.ledger.trail_since(None).end)
            fleet.ledger.delete_quota("t-0")
        receiver.until(348)
        other.until(6)
        wait_for(lambda: fleet.one("set").cursor == fleet.ledger.trail_since(None).end)
    assert {each.event["event"] for each in receiver.received} == {"quota.set"}
    assert [each.event["event"] for each in other.received] == ["quota.deleted"] * 6
    for got, kind in ((receiver, "quota.set"), (other, "quota.deleted")):
        told = [each.seq for each in reversed(fleet.ledger.audit(event=kind))]
        assert [each.event["seq"] for each in got.received] == told


def test_what_is_not_taken_is_sent_again_with_the_same_id_before_what_follows(
    fleet: Fleet, receiver: Receiver
) -> None:
    receiver.answers = [500, 503, 200]
    fleet.add("w", receiver)
    with fleet.serving():
        fleet.change("a", "b")
        got = receiver.until(4)
    assert tenants(receiver) == ["a", "a", "a", "b"]
    assert got[0].id == got[1].id == got[2].id != got[3].id
    assert fleet.kinds() == [EventKind.WEBHOOK_FAILED]
    one = fleet.one()
    assert (one.failures, one.why, one.retry_at) == (0, "", None)


def test_after_too_many_failures_it_is_paused_and_goes_on_where_it_was(
    fleet: Fleet, receiver: Receiver
) -> None:
    receiver.answers = [500] * 4
    fleet.add("w", receiver, "quota.")
    with fleet.serving():
        fleet.change("a")
        wait_for(lambda: fleet.one().paused_at)
        fleet.change("b")
        assert "4 attempts failed, the last with: HTTP 500" in fleet.one().why
        assert fleet.kinds()[-1] is EventKind.WEBHOOK_PAUSED
        assert tenants(receiver) == ["a"] * 4
        fleet.ledger.resume_webhook("id-w")
        receiver.until(6)
    assert tenants(receiver)[4:] == ["a", "b"]
    told = [each.event for each in fleet.ledger.audit(event="webhook.")]
    assert told == ["webhook.resumed", "webhook.paused", "webhook.added"]


def test_after_a_rotation_both_secrets_sign_until_the_old_one_ends(
    fleet: Fleet, receiver: Receiver
) -> None:
    fleet.add("w", receiver, "quota.")
    kept, newer, newest = webhook_secrets(fleet.config), new_secret(), new_secret()
    kept.rotate("id-w", newer, time.time() + 3600)
    with fleet.serving():
        fleet.change("a")
        both = receiver.until(1)[0]
        assert both.signed_by(fleet.secrets["w"]) and both.signed_by(newer)
        kept.rotate("id-w", newest, time.time() + 3600)
        fleet.change("b")
        second = receiver.until(2)[1]
    assert second.signed_by(newest) and second.signed_by(newer)
    assert not second.signed_by(fleet.secrets["w"]), "the one before the last signs no more"
    assert len(kept.keys("id-w", time.time() + 3601)) == 1
    undo = kept.rotate("id-w", new_secret(), time.time())
    assert len(kept.keys("id-w", time.time() + 1)) == 1
    undo()
    assert kept.keys("id-w", time.time())[0] == secret_key(newest)
    assert kept.path("id-w").stat().st_mode & 0o777 == 0o600


def test_a_receiver_that_is_gone_is_paused_at_once(fleet: Fleet, receiver: Receiver) -> None:
    receiver.answers = [410]
    fleet.add("w", receiver)
    with fleet.serving():
        fleet.change("a")
        wait_for(lambda: fleet.one().paused_at)
    assert "HTTP 410" in fleet.one().why


def test_a_redirect_is_a_failure_and_is_not_followed(fleet: Fleet, receiver: Receiver) -> None:
    with receiving() as other:
        receiver.answers, receiver.location = [302, 307], other.url
        fleet.add("w", receiver)
        with fleet.serving():
            fleet.change("a")
            receiver.until(3)
        assert other.received == []
    assert "redirects are not followed" in fleet.events[0].text


def test_a_slow_receiver_keeps_no_other_waiting(fleet: Fleet, receiver: Receiver) -> None:
    with receiving() as slow:
        slow.wait_s = 30.0
        fleet.add("slow", slow)
        fleet.add("w", receiver)
        with fleet.serving(replace(QUICK, timeout_s=1.0)):
            fleet.change(*(f"t-{number}" for number in range(20)))
            assert len(receiver.until(21)) == 21  # and that "w" was added
            wait_for(lambda: fleet.one("slow").failures)
    assert "no answer within 1 s" in fleet.one("slow").why
    assert fleet.one("slow").delivered_at is None


def test_each_webhook_is_sent_its_tenants_records_alone(tmp_path: Path, receiver: Receiver) -> None:
    two = TwoTenants(tmp_path / "l")
    fleet = Fleet(tmp_path)
    with ExitStack() as stack:
        stack.callback(fleet.ledger.close)
        stack.callback(two.close)
        red = stack.enter_context(receiving())
        fleet.add("w", receiver, tenant=BLUE)
        fleet.add("red", red, tenant=RED)
        stack.enter_context(fleet.serving())
        start = fleet.one("red").cursor
        for tenant in (BLUE, RED, BLUE):
            number = len(fleet.ledger.vms())
            vm = record(f"{tenant}-late-{number}", tenant)
            fleet.ledger.reserve(values.start(vms=[vm]))
        for name, tenant, got in (("w", BLUE, receiver), ("red", RED, red)):
            reads = fleet.ledger.within(Scope.of(tenant))
            theirs = [record_json(each) for each in reads.audit_after(start, 500)]
            assert theirs
            got.until(len(theirs))
            assert [each.body.decode() for each in got.received] == theirs, name
    assert not any(RED.encode() in each.body for each in receiver.received)
    assert not any(BLUE.encode() in each.body for each in red.received)


def test_of_two_controllers_one_delivers_and_the_other_goes_on(
    fleet: Fleet, receiver: Receiver
) -> None:
    made = fleet.add("w", receiver)
    other = open_ledger(fleet.path)
    assert other.claim(claim_of(made))
    with fleet.serving():
        fleet.change("a")
        fleet.add("sign", receiver, "quota.set")
        fleet.change("b")
        wait_for(lambda: receiver.received)
        assert tenants(receiver) == ["b"]
        other.close()
        receiver.until(4)
    assert sorted(tenants_or_kinds(receiver)) == ["a", "b", "b", "webhook.added"]


def tenants_or_kinds(receiver: Receiver) -> list[str]:
    events = [each.event for each in receiver.received]
    return [
        json.loads(each["detail"])["tenant"] if each["event"] == "quota.set" else each["event"]
        for each in events
    ]


def test_without_its_secret_nothing_is_sent_and_it_is_said(
    fleet: Fleet, receiver: Receiver
) -> None:
    made = fleet.add("w", receiver)
    path = webhook_secrets(fleet.config).path(made.id)
    kept = path.read_text()
    path.unlink()
    with fleet.serving():
        fleet.change("a")
        wait_for(lambda: fleet.events)
        assert "its secret is not on this controller" in fleet.events[0].text
        path.write_text(kept)
        path.chmod(0o644)
        wait_for(lambda: len(fleet.events) == 2)
        assert "others may have read it" in fleet.events[1].text
        assert receiver.received == []
        path.chmod(0o600)
        receiver.until(1)
        path.unlink()  # and once it was used
        fleet.change("b")
        wait_for(lambda: len(fleet.events) == 3)
        assert not fleet.ledger.is_claimed(claim_of(made))


@pytest.mark.root
def test_what_root_adds_is_the_state_folders_owners(fleet: Fleet, receiver: Receiver) -> None:
    os.chown(fleet.path.parent, 4242, 4242)
    made = fleet.add("w", receiver)
    path = webhook_secrets(fleet.config).path(made.id)
    assert {path.stat().st_uid, path.parent.stat().st_gid} == {4242}


def test_serve_that_ends_in_the_middle_and_begins_again_sends_nothing_twice(
    fleet: Fleet, receiver: Receiver
) -> None:
    fleet.add("w", receiver, "quota.")
    names = [f"t-{number}" for number in range(40)]
    fleet.change(*names)
    for number in (5, 15, 25):
        with fleet.serving(replace(QUICK, kept_s=100.0)):
            receiver.until(number)
    with fleet.serving():
        receiver.until(40)
    assert tenants(receiver) == names


def test_of_a_controller_that_is_cut_off_the_next_one_sends_the_last_records_again(
    fleet: Fleet, receiver: Receiver
) -> None:
    """At least once: what was sent and not written down has the same ids again."""
    fleet.add("w", receiver, "quota.")
    fleet.change("a", "b", "c")
    with mock.patch.object(WebhookDelivery, "_keep"), fleet.serving():
        receiver.until(3)
    with fleet.serving():
        receiver.until(6)
    assert tenants(receiver) == ["a", "b", "c"] * 2
    assert len({each.id for each in receiver.received}) == 3


def test_no_secret_is_in_the_ledger_the_trail_or_what_serve_tells(
    fleet: Fleet, receiver: Receiver
) -> None:
    made = fleet.add("w", receiver)
    receiver.answers = [500]
    with fleet.serving():
        fleet.change("a")
        receiver.until(2)
    fleet.ledger.close()
    secret = fleet.secrets["w"]
    path = webhook_secrets(fleet.config).path(made.id)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().strip() == secret
    for each in fleet.path.parent.glob("l*"):
        if each.is_file():
            assert secret.removeprefix("whsec_").encode() not in each.read_bytes()
    assert not any(secret in repr(each) for each in fleet.events)


def test_when_it_is_removed_nothing_more_is_sent(fleet: Fleet, receiver: Receiver) -> None:
    made = fleet.add("w", receiver)
    receiver.on_request = lambda _: fleet.ledger.remove_webhook(made.id)
    with fleet.serving():
        fleet.change("a", "b", "c")
        wait_for(lambda: not fleet.ledger.webhooks())
        wait_for(lambda: not fleet.ledger.is_claimed(claim_of(made)))
    assert tenants(receiver) == ["a"]
