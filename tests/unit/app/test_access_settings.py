"""Settings of logins: nested as people write them, refused where they make no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from vgpumgr.app.access_control import AccessControl
from vgpumgr.app.config import Config, load_config
from vgpumgr.model.errors import LoginRefused, UsageError


def loaded(folder: Path, text: str) -> Config:
    path = folder / "config" / "vgpumgr" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return load_config({"XDG_CONFIG_HOME": str(folder / "config"), "HOME": str(folder)}, folder)


def test_an_identity_provider(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """
auth:
  certificate_user: email
  oidc:
    issuer: https://id.example.org
    client_id: vgpumgr
    client_secret_file: /etc/vgpumgr/secret
    scopes: openid, profile groups
    groups_claim: roles
""",
    )
    assert config.auth_oidc_issuer == "https://id.example.org"
    assert config.auth_oidc_scopes == ("openid", "profile", "groups")
    assert (config.auth_oidc_groups_claim, config.auth_oidc_user_claim) == ("roles", "sub")
    assert config.auth_oidc_client_secret_file == Path("/etc/vgpumgr/secret")
    assert config.auth_certificate_user == "email"
    assert AccessControl(None, config).oidc is not None


LDAP = """
auth:
  ldap:
    url: ldaps://dc1.example.org, ldap://dc2.example.org:3389
    bind_dn: cn=vgpumgr,dc=example,dc=org
    bind_password_file: /etc/vgpumgr/ldap
    user_base: ou=people,dc=example,dc=org
"""


def test_a_directory(tmp_path: Path) -> None:
    more = '    user_filter: "(sAMAccountName={user})"\n    nested: true\n    ca: /etc/ca.pem\n'
    config = loaded(tmp_path, LDAP + more)
    assert config.auth_ldap_url == ("ldaps://dc1.example.org", "ldap://dc2.example.org:3389")
    assert config.auth_ldap_user_base == "ou=people,dc=example,dc=org"
    assert config.auth_ldap_user_filter == "(sAMAccountName={user})"
    assert config.auth_ldap_nested and config.auth_ldap_ca == Path("/etc/ca.pem")
    assert AccessControl(None, config).directory is not None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('user_filter: "(uid=*)"', "is no filter with {user} in it"),
        ('user_filter: "uid={user}"', "is no filter"),
        ('group_filter: "(member=x)"', "is no filter with {dn} or {user}"),
        ("user_name: 'uid)(x'", "is no attribute"),
        ("nested: perhaps", "is neither true nor false"),
        ("start_tls: false", "unknown setting auth_ldap_start_tls"),
    ],
)
def test_a_directory_that_cannot_be_asked(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        loaded(tmp_path, f"{LDAP}    {more}\n")


def test_without_one(tmp_path: Path) -> None:
    access = AccessControl(None, loaded(tmp_path, "policy: depth-first"))
    assert access.oidc is None and access.directory is None
    with pytest.raises(LoginRefused, match="log in no user"):
        access.of_certificate(b"")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("auth: {oidc: {issuer: https://x}}", "auth_oidc_issuer: https://x needs a client"),
        ("auth: {certificate_user: name}", "auth_certificate_user: name is no part"),
        ("reserve: 1", "reserve is a group of settings"),
        ("auth: {oidc: {isuer: https://x}}", "unknown setting auth_oidc_isuer"),
        ("auth: {oidc: {scopes: [openid]}}", "auth_oidc_scopes: is not a text"),
        ("auth: {ldap: {url: ldaps://x}}", "needs auth_ldap_bind_dn"),
        (LDAP.replace("ldaps:", "http:"), "is not the address of a directory"),
        (LDAP.replace("ldaps://dc1.example.org", "ldapi:///x"), "is not the address"),
        ("auth: {}", "auth: is not a text"),
    ],
)
def test_what_makes_no_sense(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        loaded(tmp_path, text)


def test_no_groups_are_asked_for_where_it_says_so(tmp_path: Path) -> None:
    config = loaded(tmp_path, "auth_oidc_groups_claim: ''")
    assert config.auth_oidc_groups_claim == ""
