"""Logins at an OpenID provider: in a browser by code and PKCE, at a terminal by device code."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from vgpumgr.access.principal import Principal
from vgpumgr.identity.oidc_http import OidcHttp, checked_url
from vgpumgr.identity.oidc_id_token import IdTokens
from vgpumgr.identity.oidc_provider import OidcProvider, OidcSettings
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


ATTEMPT_S = 600.0
"""How long a login may take, in seconds, from its beginning to the code."""
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_LONGEST_DEVICE_S = 1800.0
_SLOWER_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAttempt:
    """A login that was begun in a browser. Kept where that browser alone can point to it, used
    once; times are Unix seconds.
    """

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    begun_at: float


@dataclass(slots=True, kw_only=True)
class DeviceLogin:
    """A login that a user ends elsewhere: at ``verification_uri``, with ``user_code``. It is asked
    about every ``interval_s`` seconds until ``expires_at`` (Unix seconds).
    """

    device_code: str = field(repr=False)
    user_code: str
    verification_uri: str
    complete_uri: str
    interval_s: float
    expires_at: float


class OidcLogin:
    """Logins at one provider; safe to share between threads. ``now`` is Unix seconds."""

    def __init__(
        self, settings: OidcSettings, now: Callable[[], float], http: OidcHttp | None = None
    ) -> None:
        self._settings = settings
        self._now = now
        self._provider = OidcProvider(settings, http or OidcHttp(), now)
        self._id_tokens = IdTokens(self._provider, now)

    def begin(self, redirect_uri: str) -> tuple[str, LoginAttempt]:
        """Where to send the browser, and what to keep meanwhile."""
        attempt = LoginAttempt(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            redirect_uri=redirect_uri,
            begun_at=self._now(),
        )
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": self._scope,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": _challenge(attempt.verifier),
            "code_challenge_method": "S256",
        }
        where = self._provider.endpoint("authorization_endpoint")
        return f"{where}{'&' if '?' in where else '?'}{urlencode(query)}", attempt

    def finish(self, attempt: LoginAttempt, answer: Mapping[str, str]) -> Principal:
        """Who logged in, by the query that the browser came back with; LoginRefused otherwise.
        The attempt must not be used again, whatever comes of it.
        """
        state = answer.get("state", "")
        if not hmac.compare_digest(state.encode(), attempt.state.encode()):
            raise LoginRefused("the login was begun elsewhere", why="its state is not ours")
        if self._now() >= attempt.begun_at + ATTEMPT_S:
            raise LoginRefused("the login took too long", next="log in again")
        if answer.get("iss", self._settings.issuer) != self._settings.issuer:
            raise LoginRefused("the answer is another identity provider's")
        if "error" in answer:
            raise LoginRefused("the identity provider refused the login", why=_why(answer))
        if not answer.get("code"):
            raise LoginRefused("the identity provider gave no code")
        form = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": attempt.redirect_uri,
            "code_verifier": attempt.verifier,
        }
        status, found = self._post("token_endpoint", form)
        if status != 200:
            raise LoginRefused("the identity provider did not take the code", why=_why(found))
        return self._who(found, attempt.nonce)

    def begin_device(self) -> DeviceLogin:
        """A login to be ended on another device (RFC 8628)."""
        status, found = self._post("device_authorization_endpoint", {"scope": self._scope})
        if status != 200:
            raise LoginRefused("the identity provider begins no device login", why=_why(found))
        lifetime, interval = _seconds(found, "expires_in", 600.0), _seconds(found, "interval", 5.0)
        uri = checked_url(found.get("verification_uri"), "verification_uri")
        complete = found.get("verification_uri_complete")
        return DeviceLogin(
            device_code=_text(found, "device_code"),
            user_code=_text(found, "user_code"),
            verification_uri=uri,
            complete_uri=checked_url(complete, "verification_uri_complete") if complete else uri,
            interval_s=max(interval, 1.0),
            expires_at=self._now() + min(lifetime, _LONGEST_DEVICE_S),
        )

    def poll(self, device: DeviceLogin) -> Principal | None:
        """Who logged in meanwhile; None: not yet, ask again after ``device.interval_s`` seconds.
        LoginRefused once it was denied or took too long.
        """
        if self._now() >= device.expires_at:
            raise LoginRefused("the login took too long", next="log in again")
        form = {"grant_type": _DEVICE_GRANT, "device_code": device.device_code}
        status, found = self._post("token_endpoint", form)
        if status == 200:
            return self._who(found, None)
        match found.get("error"):
            case "authorization_pending":
                return None
            case "slow_down":
                device.interval_s += _SLOWER_S
                return None
        raise LoginRefused("the identity provider refused the login", why=_why(found))

    @property
    def _scope(self) -> str:
        return " ".join(dict.fromkeys(("openid", *self._settings.scopes)))

    def _post(self, endpoint: str, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        secret, headers, body = self._settings.client_secret(), {}, dict(form)
        if secret:
            both = f"{quote(self._settings.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(both.encode()).decode()}"
        else:
            body["client_id"] = self._settings.client_id
        return self._provider.http.post(self._provider.endpoint(endpoint), endpoint, body, headers)

    def _who(self, tokens: Mapping[str, Any], nonce: str | None) -> Principal:
        access = tokens.get("access_token")
        access = access if isinstance(access, str) else ""
        claims = self._id_tokens.verify(tokens.get("id_token"), nonce, access)
        return principal_of(self._settings, claims, lambda: self._userinfo(claims["sub"], access))

    def _userinfo(self, sub: str, access_token: str) -> dict[str, Any]:
        """What the userinfo endpoint tells of that user; nothing where there is none."""
        if not access_token or not self._provider.has("userinfo_endpoint"):
            return {}
        where = self._provider.endpoint("userinfo_endpoint")
        found = self._provider.http.get(where, "userinfo", access_token)
        if found.get("sub") != sub:
            raise LoginRefused(
                "the identity provider told of another user",
                why="sub of userinfo is not the ID token's",
            )
        return found


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _why(found: Mapping[str, Any]) -> str:
    said = (found.get("error"), found.get("error_description"))
    return (
        ": ".join(f"{each:.200}" for each in said if isinstance(each, str)) or "it did not say why"
    )


def _text(found: Mapping[str, Any], name: str) -> str:
    text = found.get(name)
    if not isinstance(text, str) or not 0 < len(text) <= 4096:
        raise LoginRefused("the identity provider does not answer as it should", why=f"no {name}")
    return text


def _seconds(found: Mapping[str, Any], name: str, default: float) -> float:
    number = found.get(name, default)
    return float(number) if isinstance(number, int | float) and 0 < number < 1e6 else default
