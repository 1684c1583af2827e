"""A console ticket lets in the login that asked for it, once, in time, from this server's pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.api.ticket_attacks import Attacks, Showing, attacks
from vgpumgr.api import console_route
from vgpumgr.app import console_tickets
from vgpumgr.app.console_tickets import MOST_OF_ONE, ConsoleTickets

KINDS = (
    *("again", "at once", "guessed", "other user", "other tenant", "other vm", "late"),
    *("foreign origin", "held open", "revoked"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacks]:
    with attacks(tmp_path_factory.mktemp("tickets")) as found:
        assert tuple(found.kinds()) == KINDS
        yield found


@pytest.fixture
def attack(made: Attacks) -> Attacks:
    made.attacked.hours_s += 31.0  # what other tests left open is over
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_none_gets_in_but_the_owner(attack: Attacks, kind: str) -> None:
    found = attack.kinds()[kind]()
    assert found and not any(found)
    assert attack.owners == attack.owners_in


def test_without_the_checks_they_do(attack: Attacks) -> None:
    """Each check alone keeps its attacks out."""
    with mock.patch.object(console_route, "_require_own_origin"):
        assert any(attack.foreign_origin())
    with mock.patch.object(console_tickets, "shown_login", return_value="anybody"):
        assert any(attack.other_user())
    with mock.patch.object(ConsoleTickets, "_may_connect", return_value=True):
        assert any(attack.revoked() for _ in range(8))
    swap = "vgpumgr.store.sql_ledger.SqlLedger.move_tickets"
    with mock.patch(swap), pytest.raises(AssertionError):
        assert not any(attack.again())


def test_a_login_has_so_many_at_once(attack: Attacks) -> None:
    attacked = attack.attacked
    for _ in range(MOST_OF_ONE):
        attacked.ticket("rex", "rival")
    rex = attacked.tokens["rex"]
    said = attacked.inside.ask("POST", "/v1/vms/rival:open-console", rex, {})
    assert (said.status, said.body["code"]) == (409, "conflict")
    attacked.ticket("ben")  # others have theirs
    attacked.hours_s += 31.0
    attacked.ticket("rex", "rival")


def test_a_process_has_so_many_at_once(attack: Attacks) -> None:
    attacked, consoles = attack.attacked, attack.attacked.inside.service.consoles
    secret = attacked.ticket()
    showing = Showing(secret, attacked.tokens["ann"])
    with mock.patch.object(consoles, "_count", 64):
        assert attacked.show(showing) == [False]
    assert attacked.show(showing) == [True], "it was not used up"


def test_the_secret_is_kept_nowhere(attack: Attacks) -> None:
    attacked = attack.attacked
    inside, ann = attacked.inside, attacked.tokens["ann"]
    again = {"idempotency-key": "k-1"}
    first = inside.ask("POST", "/v1/vms/desk:open-console", ann, {}, again)
    second = inside.ask("POST", "/v1/vms/desk:open-console", ann, {}, again)
    secret = first.body["protocol"].removeprefix("ticket.")
    assert second.status == 409 and "protocol" not in second.body
    assert attacked.show(Showing(secret, ann)) == [True]
    kept = Path(inside.app.config.ledger)
    files = [each.read_bytes() for each in kept.parent.glob(f"{kept.name}*") if each.is_file()]
    assert not any(secret.encode() in each for each in files)


def test_what_becomes_of_it_is_in_the_trail(attack: Attacks) -> None:
    attacked = attack.attacked
    secret = attacked.ticket(vm="other")
    attacked.show(Showing(secret, attacked.tokens["ben"]))
    told = attacked.inside.ledger.audit(event="ticket.", limit=2)
    assert [(each.event, each.by, each.method, each.detail) for each in told] == [
        ("ticket.closed", "ben", "token", "another login showed it"),
        ("ticket.open", "ann", "token", "for ann"),
    ]
