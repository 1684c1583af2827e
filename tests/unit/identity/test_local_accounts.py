"""Accounts of this machine."""

from __future__ import annotations

import os
import pwd

from vgpumgr.identity.local_accounts import LocalAccounts
from vgpumgr.model.actor import LoginMethod


def test_root_owns_every_ledger_and_others_their_own() -> None:
    accounts = LocalAccounts(owners=(4242,))
    root = accounts.by_uid(0)
    assert root.owns_ledger and root.is_local and root.uid == 0
    assert root.subject == "local:root"
    assert accounts.by_uid(4242).owns_ledger
    assert not accounts.by_uid(4243).owns_ledger


def test_a_uid_without_an_account_is_only_that() -> None:
    found = LocalAccounts().by_uid(3_999_999_999)
    assert found.subjects == {"uid:3999999999", "local:uid-3999999999"}
    assert not found.groups


def test_groups_are_those_of_the_account() -> None:
    account = pwd.getpwuid(os.geteuid())
    found = LocalAccounts().by_name(account.pw_name, LoginMethod.SHELL)
    assert found is not None and found == LocalAccounts().by_uid(account.pw_uid, LoginMethod.SHELL)
    assert found.groups
    assert LocalAccounts().by_name("nobody-of-that-name") is None
    assert LocalAccounts().by_name("nul\0") is None
