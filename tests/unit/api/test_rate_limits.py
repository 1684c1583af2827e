"""Rates by user and by address: what is refused, when it may come again, who is never held up."""

from __future__ import annotations

import pytest

from vgpumgr.access.grants import Grants
from vgpumgr.access.principal import Principal
from vgpumgr.api.problems import problem
from vgpumgr.api.rate_limits import (
    CHANGES_AT_ONCE,
    LOGINS_A_MINUTE,
    PROBES_A_MINUTE,
    RateLimit,
    RateLimits,
    TooManyRequests,
)
from vgpumgr.api.token_bucket import TokenBucket
from vgpumgr.identity.established import Established
from vgpumgr.model.actor import Actor, LoginMethod


def who(user: str, address: str = "10.0.0.1") -> Established:
    principal = Principal(user=user, method=LoginMethod.TOKEN)
    return Established(principal, Grants.of(principal, ()), Actor(user=user, address=address))


def test_a_user_who_changes_too_often_is_told_when_to_come_again() -> None:
    limits = RateLimits()
    for _ in range(int(CHANGES_AT_ONCE)):
        limits.require_request(who("ada"), changes=True)
    with pytest.raises(TooManyRequests) as refused:
        limits.require_request(who("ada"), changes=True)
    answer = problem(refused.value)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    limits.require_request(who("ada"), changes=False)
    limits.require_request(who("bo"), changes=True)


def test_this_machine_is_not_held_up() -> None:
    limits = RateLimits()
    for _ in range(2 * int(CHANGES_AT_ONCE)):
        limits.require_request(who("ada", ""), changes=True)
        limits.count_login("")


def test_logins_of_an_address_are_counted() -> None:
    limits = RateLimits()
    for _ in range(LOGINS_A_MINUTE):
        limits.count_login("10.0.0.1")
    with pytest.raises(TooManyRequests) as refused:
        limits.count_login("10.0.0.1")
    assert 1 <= int(problem(refused.value).headers["retry-after"]) <= 60 / LOGINS_A_MINUTE
    limits.count_login("10.0.0.2")


def test_an_office_behind_one_address_logs_in_and_may_fail_no_more_than_before() -> None:
    limits = RateLimits()
    for number in range(20 * LOGINS_A_MINUTE):
        limits.count_login("10.0.0.1")
        limits.count_password(f"user-{number % 3}")
        limits.login_succeeded("10.0.0.1", f"user-{number % 3}")
    for _ in range(LOGINS_A_MINUTE):
        limits.count_login("10.0.0.1")
    with pytest.raises(TooManyRequests):
        limits.count_login("10.0.0.1")


def test_a_bucket_fills_with_time() -> None:
    now = 0.0
    bucket = TokenBucket(0.5, 2, lambda: now)
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    assert bucket.wait_s() == 2
    now = 2.0
    assert (bucket.wait_s(), bucket.take(), bucket.take()) == (0, True, False)


def test_few_names_are_remembered() -> None:
    limit = RateLimit(lambda: TokenBucket(1, 1), most=2)
    first = limit.of("a")
    assert limit.of("a") is first
    for name in ("b", "c"):
        limit.of(name)
    assert limit.of("a") is not first


def test_probes_of_a_user_are_counted() -> None:
    limits = RateLimits()
    for _ in range(PROBES_A_MINUTE):
        limits.require_probe(who("ada"))
        limits.require_probe(who("ada", ""))
    with pytest.raises(TooManyRequests, match="probed too often"):
        limits.require_probe(who("ada"))
    limits.require_probe(who("bo"))


def test_passwords_of_a_user_are_counted_wherever_they_come_from() -> None:
    limits = RateLimits()
    for _ in range(LOGINS_A_MINUTE):
        limits.count_password("ada")
    with pytest.raises(TooManyRequests, match="logins of this user"):
        limits.count_password("ADA")
    limits.count_password("bo")
