"""Access control of one ledger: who asks, what they may do, and how that is administered."""

from __future__ import annotations

import os
import time
from functools import cached_property
from pathlib import Path

from vgpumgr.identity.access_administration import AccessAdministration
from vgpumgr.identity.api_tokens import ApiTokens
from vgpumgr.identity.established import Established, established
from vgpumgr.identity.local_accounts import LocalAccounts
from vgpumgr.identity.login_sessions import LoginSessions
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.ledger import Ledger


def _now() -> float:
    return time.time()


class AccessControl:
    """The identity sources over a ledger; ``place`` is its file, or its URL on a server."""

    def __init__(self, ledger: Ledger, place: str) -> None:
        self._ledger = ledger
        self._place = place

    @cached_property
    def accounts(self) -> LocalAccounts:
        """Accounts of this machine; the ledger is its file's owner's, and on a server this
        process's own user's.
        """
        try:
            return LocalAccounts((Path(self._place).stat().st_uid,))
        except OSError:
            return LocalAccounts((os.geteuid(),))

    @cached_property
    def tokens(self) -> ApiTokens:
        """API tokens."""
        return ApiTokens(self._ledger, self.accounts, _now)

    @cached_property
    def logins(self) -> LoginSessions:
        """Login sessions."""
        return LoginSessions(self._ledger, _now)

    @cached_property
    def administration(self) -> AccessAdministration:
        """Bindings, tokens and sessions, for who asks."""
        return AccessAdministration(self._ledger, self.tokens)

    def at_shell(self) -> Established:
        """The account that this process runs as."""
        return self.of_account(os.geteuid(), LoginMethod.SHELL)

    def of_account(self, uid: int, method: LoginMethod = LoginMethod.SOCKET) -> Established:
        """The account of a uid that the kernel named, with what it may do now."""
        return established(self._ledger, self.accounts.by_uid(uid, method))
