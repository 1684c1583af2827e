"""Verification of an ID token: who signed it, for whom, for which login, and when."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vgpumgr.identity.oidc_provider import OidcProvider
from vgpumgr.model.errors import LoginRefused

SKEW_S = 60.0
"""How far the provider's clock may be from ours, in seconds."""
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Signatures by a key pair: neither none, nor a secret that both sides have."""
_MAX_LENGTH = 64 * 1024


@dataclass(frozen=True, slots=True)
class IdTokens:
    """ID tokens of a provider for us; ``now`` is Unix seconds."""

    provider: OidcProvider
    now: Callable[[], float]

    def verify(self, text: object, nonce: str | None, access_token: str = "") -> dict[str, Any]:
        """The claims of a token; LoginRefused says what is wrong with it. ``nonce`` is that of the
        login, None where its flow has none.
        """
        if not isinstance(text, str) or not text or len(text) > _MAX_LENGTH:
            raise LoginRefused("the identity provider gave no ID token", why="is openid a scope?")
        claims, algorithm = self._signed(text)
        self._check_times(claims)
        self._check_audience(claims)
        if nonce is not None and not _same(claims.get("nonce"), nonce):
            raise LoginRefused("the ID token is of another login", why="its nonce is not ours")
        if "at_hash" in claims and access_token:
            _check_hash(claims["at_hash"], access_token, algorithm)
        return claims

    def _signed(self, text: str) -> tuple[dict[str, Any], str]:
        import jwt

        try:
            header = jwt.get_unverified_header(text)
        except jwt.InvalidTokenError as error:
            raise LoginRefused("the ID token cannot be read", why=str(error)) from error
        algorithm = header.get("alg")
        if algorithm not in _ALGORITHMS:
            raise LoginRefused(
                "the ID token is not signed with a key pair", why=f"its alg is {algorithm!r:.40}"
            )
        jwk = self.provider.key(header.get("kid"))
        if jwk.get("alg", algorithm) != algorithm or jwk.get("kty") == "oct":
            raise LoginRefused("the ID token is signed in another way than its key is for")
        settings = self.provider.settings
        try:
            key = jwt.PyJWK(dict(jwk), algorithm=algorithm)
            claims = jwt.decode(
                text,
                key,
                algorithms=[algorithm],
                audience=settings.client_id,
                issuer=settings.issuer,
                options={
                    "require": ["iss", "aud", "sub", "exp", "iat"],
                    "verify_exp": False,  # by our own clock, below
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except jwt.PyJWTError as error:
            raise LoginRefused("the ID token is not taken", why=str(error)) from error
        return claims, algorithm

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self.now()
        expires, issued, begins = (_number(claims, name) for name in ("exp", "iat", "nbf"))
        if expires is None or now >= expires + SKEW_S:
            raise LoginRefused("the ID token has expired")
        if issued is None or issued > now + SKEW_S or (begins or 0.0) > now + SKEW_S:
            raise LoginRefused("the ID token is not valid yet", why="the clocks differ, or it lies")

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        """PyJWT has looked for us in ``aud``; where others are there too, it must be ours."""
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self._us) != self._us:
            raise LoginRefused("the ID token was given to another client", why="its azp is not us")

    @property
    def _us(self) -> str:
        return self.provider.settings.client_id


def _same(found: object, wanted: str) -> bool:
    return isinstance(found, str) and hmac.compare_digest(found.encode(), wanted.encode())


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    found = claims.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise LoginRefused(f"the ID token's {name} is no number")
    return float(found)


def _check_hash(found: object, access_token: str, algorithm: str) -> None:
    """The access token that came along is the one that the ID token speaks of."""
    size = algorithm[-3:] if algorithm[-3:] in {"256", "384", "512"} else "512"
    digest = hashlib.new(f"sha{size}", access_token.encode()).digest()
    half = base64.urlsafe_b64encode(digest[: len(digest) // 2]).decode().rstrip("=")
    if not _same(found, half):
        raise LoginRefused("the ID token is of another access token", why="its at_hash differs")
