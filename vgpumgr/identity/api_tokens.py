"""API tokens: made for their owner, and taken as long as they, and the owner, are good."""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from vgpumgr.access.grants import Grants
from vgpumgr.access.permission import Permission
from vgpumgr.access.principal import Principal
from vgpumgr.access.token_secret import SECRET_BYTES, looks_like_token, secret_digest, token_text
from vgpumgr.identity.established import Established, acted_tenant, grants_of
from vgpumgr.identity.local_accounts import LocalAccounts
from vgpumgr.model.actor import Actor, LoginMethod
from vgpumgr.model.credential import AccessLedger, ApiToken
from vgpumgr.model.errors import AccessRefused, DatabaseFault, LoginRefused, UsageError
from vgpumgr.model.role_binding import Role

DAY_S = 86_400.0
DEFAULT_LIFETIME_S = 30 * DAY_S
LONGEST_S = 366 * DAY_S
SEEN_EVERY_S = 60.0
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class ApiTokens:
    """Tokens over a ledger; ``now`` is Unix seconds."""

    ledger: AccessLedger
    accounts: LocalAccounts
    now: Callable[[], float]
    new_id: Callable[[], str] = field(default=lambda: str(uuid.uuid4()))
    chance: Callable[[int], bytes] = field(default_factory=lambda: secrets.token_bytes)

    def create(
        self,
        owner: Principal,
        grants: Grants,
        *,
        name: str,
        role: Role,
        tenant: str,
        lifetime_s: float = DEFAULT_LIFETIME_S,
    ) -> tuple[ApiToken, str]:
        """A new token and its secret, which is written nowhere. UsageError, AccessRefused, or
        Conflict where the owner has one of that name.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r:.80} is no name of a token", next="letters, digits, . _ -")
        if not 0 < lifetime_s <= LONGEST_S:
            raise UsageError("a token lives for a year at most", next="--expires 30d")
        grants.require(Permission.TOKEN_OWN)
        if not grants.allows(role, tenant):
            raise AccessRefused(
                f"{owner.user} may not have a token with {role} in {tenant}",
                why="it would be stronger than its owner",
                next="vgpumgr auth whoami",
            )
        now, secret = self.now(), token_text(self.chance(SECRET_BYTES))
        token = ApiToken(
            id=self.new_id(),
            name=name,
            owner=owner.subject,
            owner_groups=frozenset() if owner.is_local else owner.groups,
            role=role,
            tenant=tenant,
            created_at=now,
            expires_at=now + lifetime_s,
        )
        self.ledger.add_api_token(token, secret_digest(secret))
        return token, secret

    def authenticate(self, secret: str, address: str = "") -> Established:
        """Who shows this token, with the grants it has at this moment; LoginRefused otherwise."""
        token = self.ledger.api_token(secret_digest(secret)) if looks_like_token(secret) else None
        return self._taken(token, address)

    def again(self, token_id: str) -> Established:
        """Who showed the token of that id before; LoginRefused where it is not taken any more."""
        tokens = self.ledger.api_tokens()
        return self._taken(next((each for each in tokens if each.id == token_id), None), "")

    def _taken(self, token: ApiToken | None, address: str) -> Established:
        if token is None:
            raise LoginRefused("the token is not known", next="vgpumgr token create")
        now = self.now()
        if why := token.refusal(now):
            raise LoginRefused(
                f"the token {token.name} is not taken", why=why, next="vgpumgr token create"
            )
        owner = self.owner(token)
        if owner is None:
            raise LoginRefused(f"the token {token.name} is not taken", why="its owner is gone")
        if token.last_used_at is None or now - token.last_used_at >= SEEN_EVERY_S:
            with suppress(DatabaseFault):  # a full disk keeps nobody from reading
                self.ledger.use_api_token(token.id, now)
        actor = Actor(
            user=owner.user,
            tenant=acted_tenant(token.tenant),
            method=LoginMethod.TOKEN,
            address=address,
            credential=token.id,
        )
        return Established(owner, grants_of(self.ledger, owner).within(token), actor)

    def owner(self, token: ApiToken) -> Principal | None:
        """The token's owner as of now: an account with its groups of today, or who logged in with
        the groups that the last login named. None for an account that is gone.
        """
        kind, _, name = token.owner.partition(":")
        if kind == "local":
            found = self.accounts.by_name(name)
            return found and replace(found, method=LoginMethod.TOKEN)
        last = self.ledger.last_login(name)
        groups = token.owner_groups if last is None else last.groups
        return Principal(user=name, groups=groups, method=LoginMethod.TOKEN)
