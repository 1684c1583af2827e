"""Accounts of this machine as principals: who types a command, who is behind a unix socket."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Collection
from dataclasses import dataclass

from vgpumgr.access.principal import Principal
from vgpumgr.model.actor import LoginMethod

ROOT = 0
_UID = "uid-"


@dataclass(frozen=True, slots=True)
class LocalAccounts:
    """``owners`` are the uids whose ledger it is; root's it is always."""

    owners: Collection[int] = ()

    def by_uid(self, uid: int, method: LoginMethod = LoginMethod.SOCKET) -> Principal:
        """The account of a uid, as the kernel names it; a uid without an account is only that."""
        try:
            name, groups = _name_and_groups(pwd.getpwuid(uid))
        except KeyError:
            name, groups = f"{_UID}{uid}", frozenset()
        return self._principal(uid, name, groups, method)

    def by_name(self, name: str, method: LoginMethod = LoginMethod.TOKEN) -> Principal | None:
        """The account of that name; None where there is none (any more)."""
        try:
            account = pwd.getpwnam(name)
        except (KeyError, ValueError):
            return None
        _, groups = _name_and_groups(account)
        return self._principal(account.pw_uid, name, groups, method)

    def again(self, user: str, method: LoginMethod) -> Principal | None:
        """The account that :meth:`by_uid` called so; None where it is gone."""
        uid = user.removeprefix(_UID)
        if uid != user and uid.isdecimal():
            return self.by_uid(int(uid), method)
        return self.by_name(user, method)

    def _principal(
        self, uid: int, name: str, groups: frozenset[str], method: LoginMethod
    ) -> Principal:
        return Principal(
            user=name,
            groups=groups,
            method=method,
            uid=uid,
            is_local=True,
            owns_ledger=uid == ROOT or uid in self.owners,
        )


def _name_and_groups(account: pwd.struct_passwd) -> tuple[str, frozenset[str]]:
    """Groups without a name are left out: nothing can be bound to them."""
    found = set()
    for gid in os.getgrouplist(account.pw_name, account.pw_gid):
        try:
            found.add(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return account.pw_name, frozenset(found)
