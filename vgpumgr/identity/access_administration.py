"""Administration of access, each verb for who asks: bindings, tokens, login sessions.

A thing that is not the asker's to see is not found, as one that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from vgpumgr.access.permission import Permission
from vgpumgr.identity.api_tokens import DEFAULT_LIFETIME_S, ApiTokens
from vgpumgr.identity.established import Established
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.credential import AccessLedger, ApiToken, LoginSession
from vgpumgr.model.errors import AccessRefused, NotFound
from vgpumgr.model.role_binding import Role, RoleBinding, Scope, checked_subject

T = TypeVar("T", ApiToken, LoginSession)


@dataclass(frozen=True, slots=True)
class AccessAdministration:
    """Who gets which role, whose tokens and logins there are."""

    ledger: AccessLedger
    tokens: ApiTokens

    def bindings(self, who: Established) -> tuple[RoleBinding, ...]:
        """The bindings of the tenants in which the asker may see them."""
        scope = who.grants.require(Permission.ACCESS_READ)
        return tuple(each for each in self.ledger.role_bindings() if Scope.of(each.tenant) <= scope)

    def grant(self, who: Established, binding: RoleBinding) -> bool:
        """Give a role; False where it was given already. AccessRefused for more than the asker
        has.
        """
        checked_subject(binding.subject)
        who.grants.require_to_bind(binding.role, binding.tenant)
        return self.ledger.bind_role(binding)

    def revoke(self, who: Established, binding: RoleBinding) -> None:
        """Take a role; NotFound where it was not given."""
        checked_subject(binding.subject)
        who.grants.require_to_bind(binding.role, binding.tenant)
        self.ledger.unbind_role(binding.subject, binding.role, binding.tenant)

    def list_tokens(self, who: Established) -> tuple[ApiToken, ...]:
        """The asker's own, and those for tenants whose access the asker may see."""
        who.grants.require(Permission.TOKEN_OWN)
        return self._tokens(who, Permission.ACCESS_READ)

    def create_token(
        self,
        who: Established,
        *,
        name: str,
        role: Role,
        tenant: str,
        lifetime_s: float = DEFAULT_LIFETIME_S,
    ) -> tuple[ApiToken, str]:
        """A token of the asker with its secret; a token cannot make another, which would outlive
        it.
        """
        if who.actor.method is LoginMethod.TOKEN:
            raise AccessRefused("a token makes no tokens", next="log in, or use the shell")
        return self.tokens.create(
            who.principal, who.grants, name=name, role=role, tenant=tenant, lifetime_s=lifetime_s
        )

    def revoke_token(self, who: Established, token_id: str) -> ApiToken:
        """Revoke a token of the asker's own, by its name too, or one of a tenant whose access the
        asker decides.
        """
        who.grants.require(Permission.TOKEN_OWN)
        seen = self._tokens(who, Permission.ACCESS_WRITE)
        own = (each for each in seen if each.owner == who.principal.subject)
        named = next((each.id for each in own if each.name == token_id), token_id)
        return self.ledger.revoke_api_token(_one(seen, named, "token").id)

    def list_logins(self, who: Established) -> tuple[LoginSession, ...]:
        """The asker's own sessions; all of them for who sees the access of all tenants."""
        if who.grants.scope(Permission.ACCESS_READ).is_all:
            return self.ledger.login_sessions()
        return self._own_logins(who)

    def end_login(self, who: Established, session_id: str) -> LoginSession:
        """End a session of the asker's own, or anybody's for who decides all access."""
        every = who.grants.scope(Permission.ACCESS_WRITE).is_all
        seen = self.ledger.login_sessions() if every else self._own_logins(who)
        found = _one(seen, session_id, "session")
        return self.ledger.end_login(found.id, f"ended by {who.principal.user}")

    def _tokens(self, who: Established, permission: Permission) -> tuple[ApiToken, ...]:
        scope, own = who.grants.scope(permission), who.principal.subject
        return tuple(
            each
            for each in self.ledger.api_tokens()
            if each.owner == own or Scope.of(each.tenant) <= scope
        )

    def _own_logins(self, who: Established) -> tuple[LoginSession, ...]:
        if who.principal.is_local:
            return ()
        return self.ledger.login_sessions(who.principal.user)


def _one(seen: Iterable[T], prefix: str, noun: str) -> T:
    found = [each for each in seen if prefix and each.id.startswith(prefix)]
    if len(found) != 1:
        raise NotFound(
            f"no {noun} {prefix}",
            why="more than one begins so" if found else "",
            next=f"vgpumgr {'token' if noun == 'token' else 'auth session'} list",
        )
    return found[0]
