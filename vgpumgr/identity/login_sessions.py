"""Login sessions: begun by an identity source, taken while they are used, ended at once."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from vgpumgr.access.principal import Principal
from vgpumgr.access.token_secret import SECRET_BYTES, secret_digest
from vgpumgr.identity.established import Established, established
from vgpumgr.model.credential import AccessLedger, LoginSession
from vgpumgr.model.errors import LoginRefused

LIFETIME_S = 8 * 3600.0
IDLE_S = 30 * 60.0
SEEN_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class LoginSessions:
    """Sessions over a ledger; times are seconds, ``now`` Unix seconds."""

    ledger: AccessLedger
    now: Callable[[], float]
    lifetime_s: float = LIFETIME_S
    idle_s: float = IDLE_S
    new_id: Callable[[], str] = field(default=lambda: str(uuid.uuid4()))
    chance: Callable[[int], bytes] = field(default_factory=lambda: secrets.token_bytes)

    def begin(self, principal: Principal, address: str = "") -> tuple[LoginSession, str]:
        """A new session of who just logged in, and the secret for the cookie, which is new with
        each login and kept nowhere.
        """
        now, secret = self.now(), self.chance(SECRET_BYTES).hex()
        session = LoginSession(
            id=self.new_id(),
            user=principal.user,
            groups=principal.groups,
            method=principal.method,
            address=address,
            created_at=now,
            seen_at=now,
            expires_at=now + self.lifetime_s,
        )
        self.ledger.begin_login(session, secret_digest(secret))
        return session, secret

    def authenticate(self, secret: str, address: str = "") -> Established:
        """Who shows this session's secret, with the grants of this moment; LoginRefused
        otherwise.
        """
        session = self.ledger.login_session(secret_digest(secret)) if secret else None
        return self._taken(session, address)

    def again(self, session_id: str) -> Established:
        """Who logged in by the session of that id, which is in use; LoginRefused if it is over."""
        sessions = self.ledger.login_sessions()
        found = next((each for each in sessions if each.id == session_id), None)
        return self._taken(found, found.address if found else "")

    def _taken(self, session: LoginSession | None, address: str) -> Established:
        if session is None:
            raise LoginRefused("the session is not known", next="log in again")
        now = self.now()
        if why := session.refusal(now, self.idle_s):
            raise LoginRefused("the session is over", why=why, next="log in again")
        if now - session.seen_at >= SEEN_EVERY_S:
            self.ledger.see_login(session.id, now)
        principal = Principal(user=session.user, groups=session.groups, method=session.method)
        return established(self.ledger, principal, address, session.id)
