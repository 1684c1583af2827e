"""Logins under way: each is found by a secret that its browser alone has, and taken once."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable

from vgpumgr.access.token_secret import secret_digest
from vgpumgr.identity.oidc_login import ATTEMPT_S, LoginAttempt
from vgpumgr.model.errors import LoginRefused

MOST = 1000


class PendingLogins:
    """In memory: who logs in while the process restarts begins again. Beyond ``MOST`` the oldest
    is forgotten; safe to share between threads. ``now`` is Unix seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._attempts: dict[str, LoginAttempt] = {}

    def keep(self, attempt: LoginAttempt) -> str:
        """Keep one; the secret for the browser's cookie."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._forget_old()
            self._attempts[secret_digest(secret)] = attempt
        return secret

    def take(self, secret: str) -> LoginAttempt:
        """The attempt of that browser, which is forgotten; LoginRefused where there is none."""
        with self._lock:
            self._forget_old()
            found = self._attempts.pop(secret_digest(secret), None)
        if found is None:
            raise LoginRefused(
                "no login is under way in this browser",
                why="it took too long, was ended, or was begun in another one",
                next="log in again",
            )
        return found

    def _forget_old(self) -> None:
        """They lie in the order in which they were begun."""
        late = self._now() - ATTEMPT_S
        for key, attempt in list(self._attempts.items()):
            if attempt.begun_at > late and len(self._attempts) < MOST:
                return
            del self._attempts[key]
