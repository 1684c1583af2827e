"""What proves who asks: API tokens and login sessions, as the ledger keeps them without secrets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.role_binding import EVERY_TENANT, Role, RoleBinding


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    """A token without its secret. Times are Unix seconds.

    ``owner`` is a subject (``user:NAME``, ``uid:N``); ``owner_groups`` are the groups that the
    owner's login named when the token was made. It can do what ``role`` can in ``tenant``, and no
    more than its owner can at that moment.
    """

    id: str
    name: str
    owner: str
    role: Role
    tenant: str = EVERY_TENANT
    owner_groups: frozenset[str] = frozenset()
    created_at: float
    expires_at: float
    last_used_at: float | None = None
    revoked_at: float | None = None

    def refusal(self, now: float) -> str:
        """Why it is not taken any more; empty where it is."""
        if self.revoked_at is not None:
            return "it was revoked"
        return "it has expired" if now >= self.expires_at else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSession:
    """Somebody's login without its secret; ``user`` and ``groups`` as the identity source named
    them, ``address`` where it came from. Times are Unix seconds; ``why`` says how it ended.
    """

    id: str
    user: str
    groups: frozenset[str] = frozenset()
    method: LoginMethod
    address: str = ""
    created_at: float
    seen_at: float
    expires_at: float
    ended_at: float | None = None
    why: str = ""

    def refusal(self, now: float, idle_s: float) -> str:
        """Why it is not taken any more after ``idle_s`` seconds unseen; empty where it is."""
        if self.ended_at is not None:
            return self.why or "it was ended"
        if now >= self.expires_at:
            return "it has expired"
        return "it was unused for too long" if now >= self.seen_at + idle_s else ""


class AccessLedger(Protocol):
    """Role bindings, tokens and logins in the ledger. Every method is one transaction.

    A secret never comes here: ``secret_hash`` is its SHA-256 in hexadecimal.
    """

    def role_bindings(self, subjects: Collection[str] | None = None) -> tuple[RoleBinding, ...]:
        """Every binding, or those of these subjects, by subject, tenant and role."""

    def bind_role(self, binding: RoleBinding) -> bool:
        """Enter a binding; False where it was there already."""

    def unbind_role(self, subject: str, role: Role, tenant: str) -> None:
        """Remove a binding; NotFound where there is none."""

    def api_tokens(self, owner: str | None = None) -> tuple[ApiToken, ...]:
        """Tokens that were not revoked (of one owner), the oldest first, expired ones too."""

    def api_token(self, secret_hash: str) -> ApiToken | None:
        """The token of that secret, revoked and expired ones too."""

    def add_api_token(self, token: ApiToken, secret_hash: str) -> None:
        """Enter a token; Conflict where its owner has one of that name."""

    def use_api_token(self, token_id: str, at: float) -> None:
        """Remember that it was used, to the minute."""

    def revoke_api_token(self, token_id: str) -> ApiToken:
        """Revoke a token by its id or a unique prefix of it; NotFound where there is none."""

    def login_sessions(self, user: str | None = None) -> tuple[LoginSession, ...]:
        """Sessions that were not ended (of one user), the newest first."""

    def login_session(self, secret_hash: str) -> LoginSession | None:
        """The session of that secret, ended ones too."""

    def last_login(self, user: str) -> LoginSession | None:
        """A user's newest session, whatever became of it."""

    def begin_login(self, session: LoginSession, secret_hash: str) -> None:
        """Enter a session."""

    def see_login(self, session_id: str, at: float) -> None:
        """Remember that it was used, to the minute."""

    def end_login(self, session_id: str, why: str) -> LoginSession:
        """End a session by its id or a unique prefix of it; NotFound where there is none."""

    def forget_logins(self, before: float, most: int) -> int:
        """Forget sessions that ended or expired before a time (Unix seconds), but for each user's
        newest, ``most`` at once; how many.
        """

    def forget_tokens(self, before: float, most: int) -> int:
        """Forget tokens that were revoked or expired before a time, ``most`` at once; how many."""
