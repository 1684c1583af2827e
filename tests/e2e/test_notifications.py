"""Mail of a `serve` that is killed: what it tells arrives, and nothing twice."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, finish, host, new_cli, until
from tests.mail_server import Mailbox, mail_server

RULE = """
apiVersion: vgpumgr/v1
kind: Notification
name: ops
to: [ops@example.com]
events: [notice.host, notice.licence]
severity: info
digest: 1s
every: 1s
"""


@pytest.fixture
def box() -> Iterator[Mailbox]:
    with mail_server() as made:
        yield made


@pytest.fixture
def cli(box: Mailbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    monkeypatch.setenv("VGPUMGR_MAIL_SERVER", f"127.0.0.1:{box.port}")
    monkeypatch.setenv("VGPUMGR_MAIL_SECURITY", "none")
    monkeypatch.setenv("VGPUMGR_MAIL_FROM", "vgpumgr@example.com")
    with new_cli() as made:
        yield made


def lines(text: str) -> Iterator[tuple[str, str, str]]:
    """When, which event, about what: of each record in a mail."""
    found = re.findall(r"(?m)^(\S.*?)  \w+  (notice\.\S+)\n    (\S+?):", text)
    assert found
    yield from found


@pytest.mark.thorough
def test_serve_that_is_killed_tells_what_it_sees_once(cli: Cli, box: Mailbox) -> None:
    cli.sim_up(host("h1", ("T4", 1)), host("h2", ("T4", 1)))
    cli.ok("notification", "apply", "-f", cli.file(RULE))
    said = cli.ok("notification", "test", "ops").out
    assert "taken by 127.0.0.1" in said
    process = cli.process("serve", "--interval", "1")
    cli.ok("sim", "inject", "h1", "unreachable")
    texts = [each.get_content() for each in box.until(2, 60)[1:]]
    assert any("h1" in text and "notice.host-unreachable" in text for text in texts)
    os.kill(process.pid, signal.SIGKILL)
    finish(process)
    cli.ok("sim", "inject", "h1", "clear")
    told = len(box.mails)
    process = cli.process("serve", "--interval", "1")
    cli.ok("sim", "inject", "h2", "unreachable")
    until(lambda: any("h2" in each.get_content() for each in box.mails[told:]), "mail of h2")
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 0
    # Killed before it had written down that a mail was taken, it sends that one again.
    once = {mail["Message-ID"]: mail for mail in box.mails[1:]}
    texts = ["\n".join(mail.get_content().splitlines()) for mail in once.values()]
    records = [each for text in texts for each in lines(text)]
    assert len(records) == len(set(records)), "nothing is told twice"
    kinds = {(event, about) for _, event, about in records}
    assert {("notice.host-unreachable", "h1"), ("notice.host-unreachable", "h2")} <= kinds
    assert cli.ok("notification", "show", "ops", "-o", "json").json["failures"] == 0
