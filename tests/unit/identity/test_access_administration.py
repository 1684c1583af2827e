"""Tokens, logins and roles, each verb for who asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ledgers import new_ledger
from vgpumgr.access.permission import Permission
from vgpumgr.access.principal import Principal
from vgpumgr.identity.access_administration import AccessAdministration
from vgpumgr.identity.api_tokens import DAY_S, ApiTokens
from vgpumgr.identity.established import Established, established
from vgpumgr.identity.local_accounts import LocalAccounts
from vgpumgr.identity.login_sessions import LoginSessions
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.errors import AccessRefused, Conflict, LoginRefused, NotFound, UsageError
from vgpumgr.model.role_binding import NO_TENANT, Role, RoleBinding, Scope
from vgpumgr.store import open_ledger

ADA = Principal(user="ada", groups=frozenset({"cad"}), method=LoginMethod.BROWSER)
EVE = Principal(user="eve", method=LoginMethod.BROWSER)
ROOT = Principal(user="root", method=LoginMethod.SHELL, uid=0, is_local=True, owns_ledger=True)


class Access:
    """All of it over one ledger, with time of our own."""

    def __init__(self, path: Path) -> None:
        new_ledger(path)
        self.now = 1000.0
        self.ledger = open_ledger(path, now=lambda: self.now)
        self.tokens = ApiTokens(self.ledger, LocalAccounts(), lambda: self.now)
        self.logins = LoginSessions(self.ledger, lambda: self.now)
        self.verbs = AccessAdministration(self.ledger, self.tokens)

    def who(self, principal: Principal) -> Established:
        return established(self.ledger, principal)

    def grant(self, subject: str, role: Role, tenant: str = "*") -> None:
        self.verbs.grant(self.who(ROOT), RoleBinding(subject=subject, role=role, tenant=tenant))

    def token(self, owner: Principal, role: Role, tenant: str = "*", name: str = "ci") -> str:
        return self.verbs.create_token(self.who(owner), name=name, role=role, tenant=tenant)[1]


@pytest.fixture
def access(tmp_path: Path) -> Iterator[Access]:
    made = Access(tmp_path / "l")
    yield made
    made.ledger.close()


def test_a_token_acts_for_its_owner(access: Access) -> None:
    access.grant("group:cad", Role.TENANT_ADMIN, "blue")
    access.logins.begin(ADA)
    secret = access.token(ADA, Role.VIEWER, "blue")
    found = access.tokens.authenticate(secret, "192.0.2.1")
    assert found.principal.subjects == {"user:ada", "group:cad"}
    assert (found.actor.user, found.actor.tenant, found.actor.address) == (
        "ada",
        "blue",
        "192.0.2.1",
    )
    assert found.actor.method is LoginMethod.TOKEN
    [token] = access.ledger.api_tokens()
    assert (found.actor.credential, token.last_used_at) == (token.id, 1000.0)
    assert found.grants.scope(Permission.VM_READ) == Scope.of("blue")
    assert found.grants.scope(Permission.VM_CREATE) == NO_TENANT


def test_who_loses_a_role_loses_it_for_tokens_too(access: Access) -> None:
    access.grant("user:ada", Role.VIEWER)
    secret = access.token(ADA, Role.VIEWER)
    binding = RoleBinding(subject="user:ada", role=Role.VIEWER)
    access.verbs.revoke(access.who(ROOT), binding)
    assert not access.tokens.authenticate(secret).grants.scope(Permission.VM_READ)


def test_who_leaves_a_group_loses_it_for_tokens_at_the_next_login(access: Access) -> None:
    access.grant("group:cad", Role.VIEWER)
    secret = access.token(ADA, Role.VIEWER)
    assert access.tokens.authenticate(secret).grants.scope(Permission.VM_READ)
    access.logins.begin(replace(ADA, groups=frozenset()))
    assert not access.tokens.authenticate(secret).grants.scope(Permission.VM_READ)


def test_no_token_is_stronger_than_its_owner(access: Access) -> None:
    access.grant("user:ada", Role.TENANT_ADMIN, "blue")
    for role, tenant in ((Role.TENANT_ADMIN, "*"), (Role.VIEWER, "red"), (Role.OPERATOR, "*")):
        with pytest.raises(AccessRefused, match="may not have a token"):
            access.token(ADA, role, tenant)
    with pytest.raises(AccessRefused, match="token:own is needed"):
        access.token(EVE, Role.VIEWER, "blue")
    by_token = access.tokens.authenticate(access.token(ADA, Role.TENANT_ADMIN, "blue"))
    with pytest.raises(AccessRefused, match="a token makes no tokens"):
        access.verbs.create_token(by_token, name="next", role=Role.VIEWER, tenant="blue")


def test_tokens_end(access: Access) -> None:
    access.grant("user:ada", Role.VIEWER)
    secret = access.token(ADA, Role.VIEWER)
    access.now += 30 * DAY_S
    with pytest.raises(LoginRefused) as caught:
        access.tokens.authenticate(secret)
    assert caught.value.why == "it has expired"
    access.now -= DAY_S
    access.verbs.revoke_token(access.who(ADA), "ci")
    with pytest.raises(LoginRefused) as caught:
        access.tokens.authenticate(secret)
    assert caught.value.why == "it was revoked"


@pytest.mark.parametrize("text", ["", "vgm_", "vgm_" + "a" * 43, "x" * 10_000, "vgm_' OR 1=1"])
def test_what_is_no_token_of_ours(access: Access, text: str) -> None:
    with pytest.raises(LoginRefused, match="not known"):
        access.tokens.authenticate(text)


def test_the_token_of_an_account_that_is_gone(access: Access) -> None:
    gone = replace(ROOT, user="nobody-of-that-name")
    secret = access.token(gone, Role.ADMIN)
    with pytest.raises(LoginRefused) as caught:
        access.tokens.authenticate(secret)
    assert caught.value.why == "its owner is gone"
    assert access.tokens.authenticate(access.token(ROOT, Role.ADMIN)).principal.owns_ledger


@pytest.mark.parametrize("name", ["", "a b", "-x", "a" * 64, "a\n", "ü"])
def test_names_of_tokens(access: Access, name: str) -> None:
    with pytest.raises(UsageError):
        access.token(ROOT, Role.ADMIN, name=name)


def test_a_name_is_used_once(access: Access) -> None:
    access.token(ROOT, Role.ADMIN)
    with pytest.raises(Conflict):
        access.token(ROOT, Role.ADMIN)


def test_foreign_tokens_are_not_found(access: Access) -> None:
    access.grant("user:ada", Role.TENANT_ADMIN, "blue")
    access.grant("user:eve", Role.TENANT_ADMIN, "red")
    access.token(ADA, Role.VIEWER, "blue")
    assert access.verbs.list_tokens(access.who(EVE)) == ()
    [of_ada] = access.verbs.list_tokens(access.who(ADA))
    for text in (of_ada.id, "ci"):
        with pytest.raises(NotFound):
            access.verbs.revoke_token(access.who(EVE), text)
    assert access.verbs.revoke_token(access.who(ROOT), of_ada.id).name == "ci"


def test_a_session_is_taken_while_it_is_used(access: Access) -> None:
    access.grant("group:cad", Role.VIEWER)
    session, secret = access.logins.begin(ADA, "192.0.2.9")
    for _ in range(20):
        access.now += 1200
        found = access.logins.authenticate(secret, "192.0.2.9")
    assert found.actor.credential == session.id
    assert found.principal == ADA
    access.now = session.created_at + 8 * 3600
    with pytest.raises(LoginRefused) as caught:
        access.logins.authenticate(secret)
    assert caught.value.why == "it has expired"


def test_a_session_ends_idle_or_at_once(access: Access) -> None:
    _, secret = access.logins.begin(ADA)
    second, other = access.logins.begin(ADA)
    assert secret != other
    access.verbs.end_login(access.who(ADA), second.id)
    with pytest.raises(LoginRefused) as caught:
        access.logins.authenticate(other)
    assert caught.value.why == "ended by ada"
    access.now += 1800
    with pytest.raises(LoginRefused) as caught:
        access.logins.authenticate(secret)
    assert caught.value.why == "it was unused for too long"
    for text in ("", "00", secret[:-1]):
        with pytest.raises(LoginRefused, match="not known"):
            access.logins.authenticate(text)


def test_only_who_decides_all_access_ends_anothers_session(access: Access) -> None:
    access.grant("user:eve", Role.TENANT_ADMIN, "blue")
    session, _ = access.logins.begin(ADA)
    assert access.verbs.list_logins(access.who(EVE)) == ()
    with pytest.raises(NotFound):
        access.verbs.end_login(access.who(EVE), session.id)
    assert [each.id for each in access.verbs.list_logins(access.who(ROOT))] == [session.id]
    access.verbs.end_login(access.who(ROOT), session.id[:8])


def test_bindings_are_shown_and_changed_within_the_tenant(access: Access) -> None:
    access.grant("user:ada", Role.TENANT_ADMIN, "blue")
    access.grant("user:eve", Role.VIEWER, "red")
    access.grant("user:sue", Role.VIEWER)
    ada = access.who(ADA)
    assert [each.subject for each in access.verbs.bindings(ada)] == ["user:ada"]
    blue = RoleBinding(subject="user:bob", role=Role.TENANT_USER, tenant="blue")
    assert access.verbs.grant(ada, blue)
    access.verbs.revoke(ada, blue)
    for role, tenant in ((Role.VIEWER, "red"), (Role.VIEWER, "*"), (Role.ADMIN, "*")):
        with pytest.raises(AccessRefused):
            access.verbs.grant(ada, replace(blue, role=role, tenant=tenant))
        with pytest.raises(AccessRefused):
            access.verbs.revoke(ada, replace(blue, role=role, tenant=tenant))
    with pytest.raises(AccessRefused):
        access.verbs.bindings(access.who(EVE))
    with pytest.raises(UsageError):
        access.verbs.grant(ada, replace(blue, subject="bob"))
