"""What an OpenID provider says of a user, as a principal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from vgpumgr.access.principal import Principal
from vgpumgr.identity.oidc_provider import OidcSettings
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.errors import LoginRefused

Claims = Mapping[str, Any]

_NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")
_MOST_GROUPS = 1000


def principal_of(
    settings: OidcSettings, claims: Claims, userinfo: Callable[[], Claims]
) -> Principal:
    """Who the claims of a verified ID token are about. ``userinfo`` is asked where a claim is not
    among them. LoginRefused names the claim that is missing, or wrong.
    """
    more: Claims | None = None

    def find(name: str) -> Any:
        nonlocal more
        if name in claims:
            return claims[name]
        if more is None:
            more = userinfo()
        return more.get(name)

    user = find(settings.user_claim)
    if user is None:
        raise _missing("user_claim", settings.user_claim, claims, more or {})
    if not isinstance(user, str) or not _NAME.fullmatch(user):
        raise LoginRefused("the login names no user", why=f"claim {settings.user_claim} is no name")
    if settings.user_claim == "email" and find("email_verified") is not True:
        raise LoginRefused("the login's address is not verified", why="email_verified is not true")
    groups: frozenset[str] = frozenset()
    if settings.groups_claim:
        found = find(settings.groups_claim)
        if found is None:
            raise _missing("groups_claim", settings.groups_claim, claims, more or {})
        groups = _groups(settings.groups_claim, found)
    return Principal(user=user, groups=groups, method=LoginMethod.BROWSER)


def _groups(name: str, found: object) -> frozenset[str]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise LoginRefused("the login names no groups", why=f"claim {name} is no list of texts")
    if len(found) > _MOST_GROUPS:
        raise LoginRefused("the login names too many groups", why=f"claim {name} has {len(found)}")
    return frozenset(each for each in found if _NAME.fullmatch(each))


def _missing(setting: str, name: str, claims: Claims, more: Claims) -> LoginRefused:
    return LoginRefused(
        f"the login has no claim {name}",
        why=f"the ID token has {_names(claims)}; userinfo has {_names(more)}",
        next=f"set auth.oidc.{setting}, or add to auth.oidc.scopes what makes the provider send it",
    )


def _names(claims: Iterable[str]) -> str:
    return ", ".join(sorted(claims)[:30]) or "nothing"
