"""The password that two sides make of each other's public keys."""

from __future__ import annotations

import base64

import pytest

from vgpumgr.app.ticket_password import LENGTH, PasswordHalf
from vgpumgr.model.errors import UsageError


def test_both_sides_make_the_same_and_nobody_else_does() -> None:
    mine, yours, somebodys = PasswordHalf(), PasswordHalf(), PasswordHalf()
    password = mine.password(yours.public)
    assert yours.password(mine.public) == password
    assert len(password) == LENGTH
    assert somebodys.password(yours.public) != password
    assert somebodys.password(mine.public) != password


def test_a_public_key_says_nothing_of_the_password() -> None:
    mine, yours = PasswordHalf(), PasswordHalf()
    assert mine.password(yours.public) not in mine.public + yours.public


@pytest.mark.parametrize(
    "key", ["", "x", "é", base64.urlsafe_b64encode(bytes(32)).decode(), "A" * 4000]
)
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(UsageError):
        PasswordHalf().password(key)
