"""Webhooks of a `serve` that is killed in the middle; the example of the documentation."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import Cli, finish, new_cli
from tests.pgserver import PgServer
from tests.webhook_receiver import Receiver, receiving, wait_for

DOC = Path(__file__).parents[2] / "docs" / "webhooks.md"


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    monkeypatch.setenv("VGPUMGR_WEBHOOK_NETWORKS", "127.0.0.1/32")
    with new_cli() as made:
        yield made


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def verified() -> Callable[[dict[str, str], bytes, str], bool]:
    """The receiver of docs/webhooks.md."""
    [example] = re.findall(r"```python\n(.*?)```", DOC.read_text(), re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    names: dict[str, Any] = {}
    exec(example, names)
    found: Callable[[dict[str, str], bytes, str], bool] = names["verified"]
    return found


def test_serve_that_is_killed_loses_no_record(cli: Cli, receiver: Receiver) -> None:
    secret = cli.ok(
        "webhook", "add", "w", "--url", receiver.url, "--event", "quota.set"
    ).out.strip()
    tenants = [f"t-{number}" for number in range(6)]
    killed = threading.Event()
    process = cli.process("serve")

    def kill(_: object) -> None:
        if len(receiver.received) == 3:  # what it was just sent is not answered
            os.kill(process.pid, signal.SIGKILL)
            killed.set()

    receiver.on_request = kill
    for each in tenants:
        cli.ok("quota", "set", each, "--vms", "1")
    assert killed.wait(60)
    finish(process)
    process = cli.process("serve")
    wait_for(lambda: len({each.id for each in receiver.received}) == 6, 60)
    wait_for(lambda: cli.ok("webhook", "show", "w", "-o", "json").json["delivered_at"])
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 0
    by_id = {each.id: each for each in receiver.received}  # doubles have the ids of the first ones
    assert len(receiver.received) > len(by_id)
    assert [each.event["detail"].split('"')[3] for each in by_id.values()] == tenants
    holds = verified()
    assert all(holds(each.headers, each.body, secret) for each in receiver.received)
    one = receiver.received[0]
    assert not holds(one.headers, one.body + b" ", secret)
    old = {**one.headers, "webhook-timestamp": str(int(time.time()) - 600)}
    assert not holds(old, one.body, secret)
    shown = cli.ok("webhook", "list", "-o", "json").out + cli.ok("audit", "list").out
    assert secret not in shown


def test_a_test_message_is_signed_and_says_what_is_answered(cli: Cli, receiver: Receiver) -> None:
    secret = cli.ok("webhook", "add", "w", "--url", receiver.url).out.strip()
    assert "took the message: HTTP 200" in cli.ok("webhook", "test", "w").out
    [got] = receiver.received
    assert verified()(got.headers, got.body, secret)
    assert (got.event["event"], got.event["seq"]) == ("webhook.test", 0)
    receiver.answers = [503]
    assert "HTTP 503" in cli.fails(6, "webhook", "test", "w").err
    assert cli.ok("webhook", "show", "w", "-o", "json").json["failures"] == 0


def test_doctor_names_webhooks_that_are_sent_nothing(cli: Cli, receiver: Receiver) -> None:
    cli.ok("webhook", "add", "w", "--url", receiver.url)
    assert "1 webhook, none fails" in cli("doctor").out
    cli.ok("webhook", "pause", "w", "--why", "moving")
    assert "paused: paused by root: moving" in cli("doctor").out
    [secret] = (cli.state / "webhook-secrets").iterdir()
    secret.unlink()
    assert "its secret is not on this controller" in cli("doctor").out
    cli.ok("webhook", "remove", "w")
    assert "webhook" not in cli("doctor").out


@pytest.mark.thorough
def test_of_two_controllers_on_a_server_one_sends_and_the_other_goes_on(
    cli: Cli, receiver: Receiver, pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGPUMGR_LEDGER", pg.database())
    cli.ok("webhook", "add", "w", "--url", receiver.url, "--event", "quota.set")
    with new_cli() as other:
        shutil.copytree(cli.state / "webhook-secrets", other.state / "webhook-secrets")
        processes = [each.process("serve") for each in (cli, other)]
        for number in range(30):
            cli.ok("quota", "set", f"t-{number}", "--vms", "1")
            if number == 10:
                receiver.until(5, 60)
                processes[0].kill()
                finish(processes[0])
            if number == 20:
                pg.kill()  # every claim is lost, and the ledger comes back
                pg.start()
        wait_for(lambda: len({each.id for each in receiver.received}) == 30, 120)
        processes[1].send_signal(signal.SIGTERM)
        assert finish(processes[1]).code == 0
    by_id = {each.id: each for each in receiver.received}
    tenants = [each.event["detail"].split('"')[3] for each in by_id.values()]
    assert tenants == [f"t-{number}" for number in range(30)]
    assert len(receiver.received) <= 30 + 10  # doubles only where something was cut off
