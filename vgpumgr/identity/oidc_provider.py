"""An OpenID provider: its settings, what it says of itself, and its keys."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vgpumgr.identity.oidc_http import OidcHttp, checked_url
from vgpumgr.identity.private_file import read_private_file
from vgpumgr.model.errors import LoginRefused

KEPT_S = 3600.0
"""How long keys and endpoints are kept, in seconds: a key that was withdrawn is taken as long."""
ASK_AGAIN_S = 60.0
"""For a key that is not known the provider is asked again, but not more often."""
_MOST_KEYS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """The settings ``auth.oidc``. ``user_claim`` is what a user is called, ``groups_claim`` where
    the groups are: in the ID token, or else in what the userinfo endpoint tells; empty: groups
    are not asked for. Without a ``client_secret_file`` we are a public client.
    """

    issuer: str
    client_id: str
    client_secret_file: Path | None = None
    user_claim: str = "sub"
    groups_claim: str = "groups"
    scopes: tuple[str, ...] = ("openid", "profile")

    def client_secret(self) -> str:
        """The secret as the file has it now; empty for a public client."""
        path = self.client_secret_file
        return "" if path is None else read_private_file(path)


class OidcProvider:
    """What the provider tells, asked once and kept; safe to share between threads. ``now`` is
    monotonic or Unix seconds.
    """

    def __init__(self, settings: OidcSettings, http: OidcHttp, now: Callable[[], float]) -> None:
        self.settings = settings
        self.http = http
        self._now = now
        self._lock = threading.Lock()
        self._described: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, tuple[Mapping[str, Any], ...]] | None = None

    def endpoint(self, name: str) -> str:
        """``token_endpoint`` and others; LoginRefused where the provider has none."""
        found = self._description().get(name)
        if found is None:
            raise LoginRefused(f"the identity provider has no {name}")
        return checked_url(found, name)

    def has(self, name: str) -> bool:
        """Whether it has such an endpoint."""
        return self._description().get(name) is not None

    def _description(self) -> Mapping[str, Any]:
        with self._lock:
            if self._described is None or self._now() >= self._described[0] + KEPT_S:
                self._described = self._now(), self._describe()
            return self._described[1]

    def _describe(self) -> Mapping[str, Any]:
        issuer = checked_url(self.settings.issuer, "issuer")
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        found = self.http.get(url, "discovery")
        if found.get("issuer") != issuer:
            raise LoginRefused(
                "the identity provider is another one than the settings say",
                why=f"it calls itself {found.get('issuer')!r:.120}, auth.oidc.issuer is {issuer}",
            )
        return found

    def key(self, kid: str | None) -> Mapping[str, Any]:
        """The public key of that id. One that is not known may be new: the provider is asked
        again, at most once a minute. LoginRefused where there is none.
        """
        url = self.endpoint("jwks_uri")
        with self._lock:
            age = None if self._keys is None else self._now() - self._keys[0]
            found = self._find(kid) if age is not None and age < KEPT_S else None
            if found is None and (age is None or age >= ASK_AGAIN_S):
                self._keys = self._now(), self._fetch(url)
                found = self._find(kid)
        if found is None:
            raise LoginRefused("the ID token is signed with a key that is not known")
        return found

    def _find(self, kid: str | None) -> Mapping[str, Any] | None:
        """Without an id only where there is but one key."""
        keys = self._keys[1] if self._keys else ()
        fitting = [each for each in keys if kid is None or each.get("kid") == kid]
        return fitting[0] if len(fitting) == 1 else None

    def _fetch(self, url: str) -> tuple[Mapping[str, Any], ...]:
        keys = self.http.get(url, "keys").get("keys")
        if not isinstance(keys, list):
            raise LoginRefused("the identity provider's keys are no list")
        return tuple(
            each
            for each in keys[:_MOST_KEYS]
            if isinstance(each, dict) and each.get("use", "sig") == "sig"
        )
