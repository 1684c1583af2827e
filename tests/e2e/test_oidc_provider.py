"""Logins at a real OpenID provider, oidc-provider of npm (certified). Needs node and npm."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import pytest

from tests.npm_provider import npm_provider
from vgpumgr.identity.oidc_http import OidcHttp
from vgpumgr.identity.oidc_login import OidcLogin
from vgpumgr.identity.oidc_provider import OidcSettings
from vgpumgr.model.errors import LoginRefused

BACK = "https://vgpumgr.example/auth/callback"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a provider that runs."""
    with npm_provider(tmp_path_factory.mktemp("provider"), BACK) as running:
        yield running


@pytest.fixture
def login(issuer: str, tmp_path: Path) -> OidcLogin:
    return OidcLogin(settings(issuer, tmp_path), time.time, OidcHttp())


def settings(issuer: str, folder: Path, **fields: Any) -> OidcSettings:
    secret = folder / "secret"
    secret.write_text("s3cret/+")
    secret.chmod(0o600)
    values: dict[str, Any] = {
        "client_secret_file": secret,
        "user_claim": "preferred_username",
        "scopes": ("profile", "groups"),
    }
    return OidcSettings(issuer=issuer, client_id="vgpumgr", **{**values, **fields})


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Browser:
    """It has cookies, fills in forms as ada, and stops where it would leave the provider."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        cookies = urllib.request.HTTPCookieProcessor(CookieJar())
        self._opener = urllib.request.build_opener(_Stay(), cookies)

    def open(self, url: str, form: dict[str, str] | None = None) -> str:
        """Follow redirects and fill in forms; where it ends."""
        for _ in range(20):
            where, page = self._once(url, form)
            if where:
                url, form = urljoin(url, where), None
                if not url.startswith(self.issuer):
                    return url
            elif action := re.search(r'<form[^>]*action="([^"]+)"', page):
                url, form = urljoin(url, action[1]), _filled(page)
            else:
                return page
        raise AssertionError(f"it goes round: {url}")

    def _once(self, url: str, form: dict[str, str] | None) -> tuple[str, str]:
        data = urlencode(form).encode() if form is not None else None
        try:
            with self._opener.open(url, data, timeout=10) as answer:
                return "", answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.headers.get("Location", ""), error.read().decode()


def _filled(page: str) -> dict[str, str]:
    hidden = {}
    for field in re.findall(r"<input[^>]*>", page):
        name, value = (re.search(rf'{key}="([^"]*)"', field) for key in ("name", "value"))
        if name:
            hidden[name[1]] = value[1] if value else ""
    if "login" in hidden:
        hidden |= {"login": "ada", "password": "any"}
    return hidden


def answer(issuer: str, url: str) -> dict[str, str]:
    where = Browser(issuer).open(url)
    assert where.startswith(BACK), where
    return dict(parse_qsl(urlsplit(where).query))


def test_a_login_by_code_with_groups_from_userinfo(login: OidcLogin, issuer: str) -> None:
    url, attempt = login.begin(BACK)
    came = answer(issuer, url)
    assert came["iss"] == issuer
    who = login.finish(attempt, came)
    assert who.subjects == {"user:ada", "group:cad", "group:ops"}
    with pytest.raises(LoginRefused, match="did not take the code"):
        login.finish(attempt, came)


def test_what_is_wrong_is_refused(login: OidcLogin, issuer: str) -> None:
    url, attempt = login.begin(BACK)
    came = answer(issuer, url)
    with pytest.raises(LoginRefused, match="begun elsewhere"):
        login.finish(attempt, {**came, "state": "other"})
    _, another = login.begin(BACK)
    with pytest.raises(LoginRefused, match="did not take the code"):
        login.finish(another, {**came, "state": another.state})


def test_another_nonce(login: OidcLogin, issuer: str) -> None:
    url, attempt = login.begin(BACK)
    came = answer(issuer, url.replace(attempt.nonce, "another-nonce"))
    with pytest.raises(LoginRefused, match="another login"):
        login.finish(attempt, came)


def test_a_scope_that_is_missing_is_said(issuer: str, tmp_path: Path) -> None:
    login = OidcLogin(settings(issuer, tmp_path, scopes=("profile",)), time.time)
    url, attempt = login.begin(BACK)
    with pytest.raises(LoginRefused, match="no claim groups") as caught:
        login.finish(attempt, answer(issuer, url))
    assert "userinfo has preferred_username, sub" in caught.value.why


def test_a_login_by_device_code(login: OidcLogin, issuer: str) -> None:
    device = login.begin_device()
    assert login.poll(device) is None
    Browser(issuer).open(device.complete_uri)
    who = login.poll(device)
    assert who is not None and who.groups == {"cad", "ops"}
    with pytest.raises(LoginRefused, match="refused the login"):
        login.poll(device)
