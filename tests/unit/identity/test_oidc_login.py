"""Logins at an OpenID provider, and all that must not be one."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests import oidc_provider
from tests.oidc_provider import CLIENT, SECRET, Claims, Provider
from vgpumgr.identity.oidc_http import OidcHttp
from vgpumgr.identity.oidc_login import OidcLogin
from vgpumgr.identity.oidc_provider import OidcSettings
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.errors import HostUnreachable, LoginRefused

BACK = "https://vgpumgr.example/auth/callback"


@pytest.fixture(scope="module")
def one() -> Iterator[Provider]:
    with oidc_provider.running() as made:
        yield made


@pytest.fixture
def provider(one: Provider) -> Provider:
    """As it was made; its key stays, which costs most."""
    one.claims = {"sub": "u-1", "preferred_username": "ada", "groups": ["cad", "ops"]}
    one.userinfo = {"sub": "u-1"}
    one.change, one.encode = lambda _: None, one.sign
    one.published, one.description, one.asked = True, {}, []
    return one


class Login:
    """Our side, with time of our own."""

    def __init__(self, provider: Provider, folder: Path, **settings: Any) -> None:
        secret = folder / "secret"
        secret.write_text(SECRET + "\n")
        secret.chmod(0o600)
        values = {"user_claim": "preferred_username", "client_secret_file": secret}
        self.settings = OidcSettings(
            issuer=provider.issuer, client_id=CLIENT, **{**values, **settings}
        )
        self.provider = provider
        self.ahead = 0.0
        self.login = OidcLogin(self.settings, lambda: time.time() + self.ahead, OidcHttp(1.0))

    def __call__(self, **answer: str) -> Any:
        url, attempt = self.login.begin(BACK)
        return self.login.finish(attempt, {**self.provider.log_in(url), **answer})


@pytest.fixture
def login(provider: Provider, tmp_path: Path) -> Login:
    return Login(provider, tmp_path)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(LoginRefused) as caught:
        call()
    error = caught.value
    assert error.exit_status == 8
    return f"{error.message}: {error.why}: {error.next}"


def test_a_login_comes_to_a_principal(login: Login) -> None:
    who = login()
    assert who.subjects == {"user:ada", "group:cad", "group:ops"}
    assert (who.method, who.is_local, who.owns_ledger, who.uid) == (
        LoginMethod.BROWSER, False, False, None,
    )  # fmt: skip
    assert "/userinfo" not in login.provider.asked


def test_keys_and_endpoints_are_asked_for_once(login: Login) -> None:
    for _ in range(3):
        login()
    asked = login.provider.asked
    assert asked.count("/.well-known/openid-configuration") == asked.count("/jwks") == 1


def test_each_login_has_chance_of_its_own(login: Login) -> None:
    attempts = [login.login.begin(BACK)[1] for _ in range(50)]
    for name in ("state", "nonce", "verifier"):
        assert len({getattr(each, name) for each in attempts}) == 50
    url, attempt = login.login.begin(BACK)
    assert attempt.verifier not in url


def test_a_wrong_state(login: Login) -> None:
    assert "state is not ours" in refused(lambda: login(state="x" * 43))
    assert "state is not ours" in refused(lambda: login(state=""))
    assert "state is not ours" in refused(lambda: login(state="ä"))
    assert "/token" not in login.provider.asked


def test_a_code_is_taken_once(login: Login) -> None:
    url, attempt = login.login.begin(BACK)
    answer = login.provider.log_in(url)
    login.login.finish(attempt, answer)
    assert "invalid_grant" in refused(lambda: login.login.finish(attempt, answer))


def test_anothers_code_needs_anothers_verifier(login: Login) -> None:
    url, _ = login.login.begin(BACK)
    stolen = login.provider.log_in(url)["code"]
    assert "PKCE" in refused(lambda: login(code=stolen))


def test_no_code_an_error_another_issuer_too_late(login: Login) -> None:
    assert "gave no code" in refused(lambda: login(code=""))
    said = refused(lambda: login(error="access_denied", error_description="not today"))
    assert "access_denied: not today" in said
    assert "another identity provider" in refused(lambda: login(iss="https://evil.example"))
    url, attempt = login.login.begin(BACK)
    answer = login.provider.log_in(url)
    login.ahead = 601.0
    assert "took too long" in refused(lambda: login.login.finish(attempt, answer))


FROM_NOW = 1e12
"""Added to a span, it stands for a time that far from when the test runs."""


def at_this_time(changes: Claims) -> Claims:
    near = 1e9
    return {
        key: time.time() + value - FROM_NOW
        if isinstance(value, float) and abs(value - FROM_NOW) < near
        else value
        for key, value in changes.items()
    }


CHANGES: dict[str, tuple[Claims, str]] = {
    "wrong nonce": ({"nonce": "another"}, "nonce is not ours"),
    "no nonce": ({"nonce": None}, "nonce is not ours"),
    "wrong aud": ({"aud": "another"}, "is not taken"),
    "no aud": ({"aud": None}, "is not taken"),
    "wrong iss": ({"iss": "https://evil.example"}, "is not taken"),
    "no iss": ({"iss": None}, "is not taken"),
    "no sub": ({"sub": None}, "is not taken"),
    "no exp": ({"exp": None}, "is not taken"),
    "no iat": ({"iat": None}, "is not taken"),
    "expired": ({"exp": FROM_NOW - 61}, "has expired"),
    "exp is text": ({"exp": "never"}, "exp is no number"),
    "not yet valid": ({"nbf": FROM_NOW + 300}, "not valid yet"),
    "issued tomorrow": ({"iat": FROM_NOW + 86_400}, "not valid yet"),
    "for others too": ({"aud": [CLIENT, "another"]}, "given to another client"),
    "for another client": ({"azp": "another"}, "given to another client"),
    "of another access token": ({"at_hash": "AAAA"}, "at_hash differs"),
    "no user": ({"preferred_username": None}, "no claim preferred_username"),
    "a user that is no text": ({"preferred_username": 7}, "is no name"),
    "a user with a blank": ({"preferred_username": "a b"}, "is no name"),
    "groups that are a text": ({"groups": "admins"}, "no list of texts"),
    "groups that are no texts": ({"groups": ["a", 1]}, "no list of texts"),
    "groups that are a mapping": ({"groups": {"admins": True}}, "no list of texts"),
    "too many groups": ({"groups": [str(n) for n in range(1001)]}, "too many groups"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_an_id_token_that_is_not_for_this_login(login: Login, what: str) -> None:
    changes, said = CHANGES[what]
    login.provider.change = lambda claims: claims.update(at_this_time(changes))
    assert said in refused(login)


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": FROM_NOW - 30},
        {"iat": FROM_NOW + 30, "nbf": FROM_NOW + 30},
        {"aud": [CLIENT]},
        {"aud": [CLIENT, "another"], "azp": CLIENT},
        {"at_hash": None},
        {"groups": []},
    ],
    ids=str,
)
def test_what_is_still_one(login: Login, changes: Claims) -> None:
    changes = at_this_time(changes)
    login.provider.change = lambda claims: claims.update(changes)
    assert login().user == "ada"


def _unsigned(claims: Claims, algorithm: str = "none") -> str:
    parts = ({"alg": algorithm, "typ": "JWT", "kid": "k1"}, claims)
    texts = (base64.urlsafe_b64encode(json.dumps(each).encode()).decode() for each in parts)
    return ".".join(each.rstrip("=") for each in texts) + "."


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", ""])
def test_a_token_that_is_not_signed(login: Login, algorithm: str) -> None:
    login.provider.encode = lambda claims: _unsigned(claims, algorithm)
    assert "not signed with a key pair" in refused(login)


def test_a_signature_with_the_public_key_as_a_secret(login: Login) -> None:
    import hashlib
    import hmac

    pem = (
        login.provider.keys[0][1]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )

    def forged(claims: Claims) -> str:
        text = _unsigned(claims, "HS256").rstrip(".")
        signature = hmac.new(pem, text.encode(), hashlib.sha256).digest()
        return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"

    login.provider.encode = forged
    assert "not signed with a key pair" in refused(login)


def test_a_signature_by_another_key(login: Login) -> None:
    other = rsa.generate_private_key(65537, 2048)
    login.provider.encode = lambda claims: jwt.encode(claims, other, "RS256", headers={"kid": "k1"})
    assert "Signature verification failed" in refused(login)


def test_a_changed_token(login: Login) -> None:
    def changed(claims: Claims) -> str:
        head, _, signature = login.provider.sign(claims).split(".")
        _, body, _ = _unsigned({**claims, "groups": ["admins"]}).split(".")
        return f"{head}.{body}.{signature}"

    login.provider.encode = changed
    assert "Signature verification failed" in refused(login)


def test_a_key_that_the_token_brings_along(login: Login) -> None:
    own = rsa.generate_private_key(65537, 2048)
    jwk = jwt.algorithms.RSAAlgorithm.to_jwk(own.public_key(), as_dict=True)
    login.provider.encode = lambda claims: jwt.encode(
        claims, own, "RS256", headers={"kid": "mine", "jwk": jwk, "jku": "https://evil.example"}
    )
    assert "key that is not known" in refused(login)


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "é.é.é", "." * 3, "x" * 70_000])
def test_what_is_no_token(login: Login, text: str) -> None:
    login.provider.encode = lambda _: text
    assert "ID token" in refused(login)


def test_an_unknown_key_is_asked_for_once_a_minute(login: Login) -> None:
    login()
    login.provider.encode = lambda claims: login.provider.sign(claims, kid="unknown")
    login.ahead = 61.0
    for _ in range(5):
        assert "key that is not known" in refused(login)
    assert login.provider.asked.count("/jwks") == 2


def test_a_new_key_is_taken_and_an_old_one_no_longer(provider: Provider, login: Login) -> None:
    login()
    _, old = provider.keys[0]
    provider.rotate("k2")
    login.ahead = 61.0
    provider.change = lambda claims: claims.update(exp=time.time() + 9000)
    assert login().user == "ada"
    provider.encode = lambda claims: jwt.encode(claims, old, "RS256", headers={"kid": "k1"})
    assert "key that is not known" in refused(login)
    provider.rotate("k1")


def test_groups_come_from_userinfo_where_the_id_token_has_none(login: Login) -> None:
    del login.provider.claims["groups"]
    login.provider.userinfo = {"sub": "u-1", "groups": ["staff"]}
    assert login().groups == {"staff"}


def test_a_missing_claim_is_named_with_those_that_came(login: Login) -> None:
    del login.provider.claims["groups"]
    login.provider.userinfo = {"sub": "u-1", "email": "ada@example.org"}
    said = refused(login)
    assert said.startswith("the login has no claim groups: the ID token has at_hash, aud, exp, iat")
    assert "userinfo has email, sub" in said
    assert "auth.oidc.groups_claim" in said and "auth.oidc.scopes" in said


def test_userinfo_of_another_user(login: Login) -> None:
    del login.provider.claims["groups"]
    login.provider.userinfo = {"sub": "u-2", "groups": ["admins"]}
    assert "told of another user" in refused(login)
    login.provider.userinfo = {"groups": ["admins"]}
    assert "told of another user" in refused(login)


def test_groups_may_be_left_out(provider: Provider, tmp_path: Path) -> None:
    del provider.claims["groups"]
    assert Login(provider, tmp_path, groups_claim="")().groups == frozenset()
    assert "/userinfo" not in provider.asked


def test_an_address_counts_only_when_it_is_verified(provider: Provider, tmp_path: Path) -> None:
    login = Login(provider, tmp_path, user_claim="email")
    for verified in (None, False, "true", 1):
        provider.claims |= {"email": "ada@example.org", "email_verified": verified}
        assert "not verified" in refused(login)
    provider.claims["email_verified"] = True
    assert login().subject == "user:ada@example.org"


def test_the_user_is_the_subject_unless_said_otherwise(provider: Provider, tmp_path: Path) -> None:
    assert Login(provider, tmp_path, user_claim="sub")().user == "u-1"
    assert OidcSettings(issuer="x", client_id="y").user_claim == "sub"


def test_a_device_login(login: Login) -> None:
    device = login.login.begin_device()
    assert device.verification_uri.endswith("/activate") and device.user_code == "ABCD-EFGH"
    assert device.device_code not in repr(device)
    assert login.login.poll(device) is None
    login.provider.devices[device.device_code] = "slow_down"
    assert login.login.poll(device) is None
    assert device.interval_s == 7.0
    login.provider.devices[device.device_code] = "done"
    who = login.login.poll(device)
    assert who is not None and who.groups == {"cad", "ops"}


@pytest.mark.parametrize("error", ["access_denied", "expired_token", "invalid_grant"])
def test_a_device_login_that_is_refused(login: Login, error: str) -> None:
    device = login.login.begin_device()
    login.provider.devices[device.device_code] = error
    assert error in refused(lambda: login.login.poll(device))


def test_a_device_login_ends(login: Login) -> None:
    device = login.login.begin_device()
    login.ahead = 601.0
    assert "took too long" in refused(lambda: login.login.poll(device))


def test_a_provider_that_is_another_one(login: Login) -> None:
    login.provider.description = {"issuer": "https://evil.example"}
    assert "another one than the settings say" in refused(lambda: login.login.begin(BACK))


@pytest.mark.parametrize(
    "url", ["http://evil.example/jwks", "file:///etc/passwd", "ftp://127.0.0.1/", "//x", 7, "",
            "https://", "https://user:pw@evil.example/", "http://127.0.0.1.evil.example/"],
)  # fmt: skip
def test_only_https_or_this_machine(login: Login, url: object) -> None:
    login.provider.description = {"jwks_uri": url}
    assert "jwks_uri is not an https address" in refused(login)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/elsewhere", "HTTP 302"),
        ("/large", "larger than"),
        ("/text", "not JSON"),
        ("/slow", "took too long"),
        ("/slow-head", "took too long"),
        ("/none", "HTTP 404"),
    ],
)
def test_answers_have_limits(login: Login, path: str, said: str) -> None:
    login.provider.description = {"jwks_uri": f"{login.provider.issuer}{path}"}
    assert said in refused(login)


def test_a_provider_that_is_down(tmp_path: Path) -> None:
    settings = OidcSettings(issuer="http://127.0.0.1:9", client_id=CLIENT)
    login = OidcLogin(settings, time.time, OidcHttp(1.0))
    with pytest.raises(HostUnreachable, match="cannot be reached"):
        login.begin(BACK)


def test_a_secret_that_others_may_read(login: Login) -> None:
    path = login.settings.client_secret_file
    assert path is not None
    path.chmod(0o644)
    assert "other users may read" in refused(login)
    path.unlink()
    assert "cannot be read" in refused(login)


def test_a_wrong_secret(login: Login) -> None:
    path = login.settings.client_secret_file
    assert path is not None
    path.write_text("wrong")
    assert "invalid_client" in refused(login)
    assert SECRET not in repr(login.settings)
    assert replace(login.settings, client_secret_file=None).client_secret() == ""


def test_keys_that_are_no_keys(login: Login) -> None:
    login.provider.published = False
    assert "key that is not known" in refused(login)
