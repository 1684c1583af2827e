"""A console ticket as the command line prints it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from vgpumgr.app.ticket_password import GivenTicket
from vgpumgr.cli.commands.console import print_ticket
from vgpumgr.cli.output import output_option
from vgpumgr.model.console_ticket import ConsoleTicket

NOW = 1_800_000_000.0  # 2027-01-15 08:00 UTC
OPEN_S = 60


@pytest.mark.parametrize(
    ("opened_at", "until"),
    [(NOW - 3600, "2027-01-15T07:01:00.000Z"), (None, "2027-01-15T08:01:00.000Z")],
    ids=["since it was opened", "since now, where nobody wrote down when it was opened"],
)
def test_a_ticket_expires_so_long_after_it_was_opened(
    opened_at: float | None, until: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: NOW)
    ticket = ConsoleTicket(
        id="t",
        vm_id="v",
        vm="desk",
        user="ada",
        machine="m",
        key="k",
        asked_at=NOW,
        address="127.0.0.1:5901",
        opened_at=opened_at,
    )
    context = SimpleNamespace(config=SimpleNamespace(ticket_s=OPEN_S))

    @click.command
    @output_option
    def command() -> None:
        print_ticket(context, GivenTicket(ticket, "secret"))

    said = CliRunner().invoke(command, ["-o", "json"], catch_exceptions=False)
    assert json.loads(said.stdout)["until"] == until
