"""`POST /v1/logins:password`: what is answered, and what becomes known of a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.api.inside import Inside
from tests.ledgers import new_ledger
from vgpumgr.access.principal import Principal
from vgpumgr.api.rate_limits import LOGINS_A_MINUTE, RateLimits
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.errors import HostUnreachable, LoginRefused

PATH = "/v1/logins:password"
PASSWORD = "correct-horse"


class OneAccount:
    """A directory with one user; ``away``: it does not answer."""

    def __init__(self, *, away: bool = False) -> None:
        self.away = away
        self.asked: list[str] = []

    def log_in(self, user: str, password: str) -> Principal:
        self.asked.append(user)
        if self.away:
            raise HostUnreachable("the directory cannot be reached")
        if (user, password) != ("ada", PASSWORD):
            raise LoginRefused("the user or the password is wrong")
        return Principal(user="ada", groups=frozenset({"cad"}), method=LoginMethod.DIRECTORY)


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    new_ledger(tmp_path / "ledger.db")
    made = Inside(tmp_path, tmp_path / "ledger.db")
    yield made
    made.close()


def asked(user: object = "ada", password: object = PASSWORD) -> dict[str, object]:
    return {"user": user, "password": password}


def test_a_login_begins_a_session_that_can_be_ended(inside: Inside) -> None:
    with mock.patch.dict(vars(inside.app.access), {"directory": OneAccount()}):
        said = inside.ask("POST", PATH, "", asked())
    assert (said.status, said.body["user"], said.body["done"]) == (200, "ada", True)
    secret = said.body["secret"]
    assert inside.ask("GET", "/v1/whoami", secret).body["subjects"] == [
        "group:cad",
        "user:ada",
    ]
    [session] = inside.ledger.login_sessions()
    assert session.method is LoginMethod.DIRECTORY
    assert inside.ask("POST", "/v1/logout", secret).status == 200
    assert inside.ask("GET", "/v1/whoami", secret).status == 401


def test_a_refusal_is_in_the_trail_without_what_was_typed(inside: Inside) -> None:
    with mock.patch.dict(vars(inside.app.access), {"directory": OneAccount()}):
        said = inside.ask("POST", PATH, "", asked(password="wr0ng-one"))
    assert (said.status, said.body["message"]) == (401, "the user or the password is wrong")
    [record] = inside.ledger.audit(event="access.refused")
    assert "wr0ng" not in said.text and "wr0ng" not in repr(record)


def test_other_answers(inside: Inside) -> None:
    assert inside.ask("POST", PATH, "", asked()).status == 404, "no directory is set"
    directory = OneAccount(away=True)
    with mock.patch.dict(vars(inside.app.access), {"directory": directory}):
        assert inside.ask("POST", PATH, "", asked()).status >= 500
        for bad in (asked(password=""), asked(user=""), asked(user=7), asked(password="x" * 1001)):
            said = inside.ask("POST", PATH, "", bad)
            assert said.status == 422 and "xxxx" not in said.text
    assert directory.asked == ["ada"]


def test_the_directory_is_asked_no_oftener_than_may_be(inside: Inside) -> None:
    inside.service.limits = RateLimits()
    directory = OneAccount()
    with mock.patch.dict(vars(inside.app.access), {"directory": directory}):
        said = [inside.ask("POST", PATH, "", asked(password=f"guess-{n}")) for n in range(9)]
    assert [each.status for each in said] == [401] * LOGINS_A_MINUTE + [429] * 4
    assert len(directory.asked) == LOGINS_A_MINUTE
