"""Logins under way: taken once, by the browser that began them, in time."""

from __future__ import annotations

import pytest

from vgpumgr.identity.oidc_login import LoginAttempt
from vgpumgr.identity.pending_logins import MOST, PendingLogins
from vgpumgr.model.errors import LoginRefused


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def attempt(state: str, at: float = 1000.0) -> LoginAttempt:
    return LoginAttempt(state=state, nonce="n", verifier="v", redirect_uri="r", begun_at=at)


def test_an_attempt_is_taken_once() -> None:
    pending = PendingLogins(Clock())
    one, other = pending.keep(attempt("a")), pending.keep(attempt("b"))
    assert pending.take(other).state == "b"
    assert pending.take(one).state == "a"
    for secret in (one, other, "", "x"):
        with pytest.raises(LoginRefused, match="no login is under way"):
            pending.take(secret)


def test_an_attempt_has_its_time() -> None:
    clock = Clock()
    pending = PendingLogins(clock)
    secret = pending.keep(attempt("a"))
    clock.now += 600.0
    with pytest.raises(LoginRefused):
        pending.take(secret)


def test_there_are_only_so_many() -> None:
    pending = PendingLogins(Clock())
    kept = [pending.keep(attempt(str(number))) for number in range(MOST + 10)]
    assert len(pending._attempts) <= MOST
    with pytest.raises(LoginRefused):
        pending.take(kept[0])
    assert pending.take(kept[-1]).state == str(MOST + 9)
