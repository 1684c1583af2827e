"""Role bindings, tokens and logins in the ledger, on both stores."""

from __future__ import annotations

import pytest

from tests.unit.store.values import open_ledger
from vgpumgr.access.token_secret import secret_digest
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.api_request import RequestKey, working_for
from vgpumgr.model.credential import ApiToken, LoginSession
from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.quota import Quota
from vgpumgr.model.role_binding import Role, RoleBinding
from vgpumgr.store import SqlLedger

SECRET = "vgm_" + "s" * 43
HASH = secret_digest(SECRET)
ADA_VIEWS = RoleBinding(subject="user:ada", role=Role.VIEWER, tenant="blue")


def token(id_: str = "t-1", name: str = "ci", **fields: object) -> ApiToken:
    values: dict[str, object] = {
        "owner": "user:ada",
        "owner_groups": frozenset({"cad", "ops"}),
        "role": Role.VIEWER,
        "tenant": "blue",
        "created_at": 10.0,
        "expires_at": 100.0,
    }
    return ApiToken(id=id_, name=name, **(values | fields))


def login(id_: str, created: float = 10.0, **fields: object) -> LoginSession:
    values: dict[str, object] = {
        "user": "ada",
        "groups": frozenset({"cad"}),
        "method": LoginMethod.BROWSER,
        "address": "192.0.2.7",
        "created_at": created,
        "seen_at": created,
        "expires_at": created + 100,
    }
    return LoginSession(id=id_, **(values | fields))


def told(ledger: SqlLedger) -> list[tuple[str, str, str]]:
    return [(each.event, each.by, each.detail) for each in reversed(ledger.audit(event="access."))]


def test_bindings(url: str) -> None:
    ledger = open_ledger(url, by="root@controller", now=lambda: 5.0)
    cad = RoleBinding(subject="group:cad", role=Role.TENANT_ADMIN)
    assert ledger.bind_role(ADA_VIEWS) and ledger.bind_role(cad)
    assert not ledger.bind_role(ADA_VIEWS)
    assert [each.subject for each in ledger.role_bindings()] == ["group:cad", "user:ada"]
    [found] = ledger.role_bindings(["user:ada", "group:none"])
    assert (found.role, found.tenant, found.created_by) == (Role.VIEWER, "blue", "root@controller")
    assert ledger.role_bindings([]) == ()
    ledger.unbind_role("user:ada", Role.VIEWER, "blue")
    with pytest.raises(NotFound, match="user:ada does not have viewer"):
        ledger.unbind_role("user:ada", Role.VIEWER, "blue")
    assert told(ledger) == [
        ("access.bound", "root@controller", "user:ada: viewer in blue"),
        ("access.bound", "root@controller", "group:cad: tenant-admin in *"),
        ("access.unbound", "root@controller", "user:ada: viewer in blue"),
    ]


def test_a_token_is_found_by_its_secret_alone(url: str) -> None:
    ledger = open_ledger(url, now=lambda: 50.0)
    ledger.add_api_token(token(), HASH)
    assert ledger.api_token(HASH) == token()
    assert ledger.api_token(secret_digest("vgm_" + "t" * 43)) is None
    assert ledger.api_token(SECRET) is None
    with pytest.raises(Conflict, match="has a token ci already"):
        ledger.add_api_token(token("t-2"), secret_digest("other"))
    with pytest.raises(Conflict):
        ledger.add_api_token(token("t-3", "third"), HASH)
    assert ledger.api_tokens("user:ada") == ledger.api_tokens() == (token(),)
    assert ledger.api_tokens("user:eve") == ()


def test_when_it_was_used_is_kept_to_the_minute(url: str) -> None:
    ledger = open_ledger(url)
    ledger.add_api_token(token(), HASH)
    seen = []
    for at in (20.0, 30.0, 79.0, 80.0):
        ledger.use_api_token("t-1", at)
        [found] = ledger.api_tokens()
        seen.append(found.last_used_at)
    assert seen == [20.0, 20.0, 20.0, 80.0]


def test_a_revoked_token_stays_as_one_that_is_refused(url: str) -> None:
    ledger = open_ledger(url, now=lambda: 50.0)
    ledger.add_api_token(token(), HASH)
    with pytest.raises(NotFound):
        ledger.revoke_api_token("")
    assert ledger.revoke_api_token("t-").name == "ci"
    found = ledger.api_token(HASH)
    assert found is not None and found.refusal(51.0) == "it was revoked"
    assert ledger.api_tokens() == ()
    with pytest.raises(NotFound):
        ledger.revoke_api_token("t-1")
    ledger.add_api_token(token("t-2"), secret_digest("new"))  # the name is free again
    assert [event for event, _, _ in told(ledger)] == [
        "access.token-created",
        "access.token-revoked",
        "access.token-created",
    ]


def test_a_prefix_that_two_have_names_neither(url: str) -> None:
    ledger = open_ledger(url)
    ledger.add_api_token(token("t-1", "a"), "1")
    ledger.add_api_token(token("t-2", "b"), "2")
    with pytest.raises(NotFound) as caught:
        ledger.revoke_api_token("t-")
    assert caught.value.why == "more than one begins so"
    for wild in ("%", "_-1"):
        with pytest.raises(NotFound):
            ledger.revoke_api_token(wild)
    assert len(ledger.api_tokens()) == 2


def test_an_expired_token_is_refused() -> None:
    assert token().refusal(99.9) == ""
    assert token().refusal(100.0) == "it has expired"


def test_logins(url: str) -> None:
    ledger = open_ledger(url, now=lambda: 60.0, by="api@controller")
    ledger.begin_login(login("s-1"), "1")
    ledger.begin_login(login("s-2", 30.0, groups=frozenset({"new"})), "2")
    ledger.begin_login(login("s-3", 31.0, user="eve"), "3")
    assert ledger.login_session("1") == login("s-1")
    assert ledger.login_session("9") is None
    newest = ledger.last_login("ada")
    assert newest is not None and newest.groups == {"new"}
    assert [each.id for each in ledger.login_sessions()] == ["s-3", "s-2", "s-1"]
    for at in (50.0, 70.0, 80.0):
        ledger.see_login("s-1", at)
    found = ledger.login_session("1")
    assert found is not None and found.seen_at == 70.0
    assert found.refusal(75.0, 30.0) == ""
    assert found.refusal(101.0, 30.0) == "it was unused for too long"
    assert found.refusal(111.0, 300.0) == "it has expired"
    assert ledger.end_login("s-1", "logged off").user == "ada"
    found = ledger.login_session("1")
    assert found is not None and found.refusal(75.0, 30.0) == "logged off"
    assert [each.id for each in ledger.login_sessions("ada")] == ["s-2"]
    assert told(ledger)[-1] == (
        "access.login-ended",
        "api@controller",
        "ada by browser from 192.0.2.7: logged off",
    )


def test_no_secret_or_digest_of_one_is_in_the_trail(url: str) -> None:
    ledger = open_ledger(url)
    ledger.add_api_token(token(), HASH)
    ledger.begin_login(login("s-1"), HASH[::-1])
    ledger.revoke_api_token("t-1")
    said = repr(ledger.audit())
    assert HASH not in said and HASH[::-1] not in said and SECRET not in said


def test_ended_logins_are_forgotten_but_for_each_users_newest(url: str) -> None:
    now = [10.0]
    ledger = open_ledger(url, now=lambda: now[0])
    for number in range(5):
        ledger.begin_login(login(f"l-{number}", 10.0 + number), f"hash-{number}")
    ledger.begin_login(login("other", user="bob"), "hash-other")
    now[0] = 20.0
    ledger.end_login("l-0", "logged out")
    assert (ledger.forget_logins(20.0, 100), ledger.forget_logins(20.5, 100)) == (0, 1)
    assert (ledger.forget_logins(1e9, 2), ledger.forget_logins(1e9, 2)) == (2, 1)
    assert [each.id for each in ledger.login_sessions()] == ["l-4", "other"]
    last = ledger.last_login("ada")
    assert last is not None and last.groups == {"cad"}, "tokens of the user count for these"
    assert len(ledger.audit(event="access.login")) >= 6, "the trail keeps who came in"


def test_ended_tokens_are_forgotten(url: str) -> None:
    ledger = open_ledger(url, now=lambda: 50.0)
    for number in range(3):
        ledger.add_api_token(token(f"t-{number}", f"n-{number}"), f"hash-{number}")
    ledger.revoke_api_token("t-0")
    assert (ledger.forget_tokens(50.0, 100), ledger.forget_tokens(51.0, 100)) == (0, 1)
    assert (ledger.forget_tokens(100.0, 100), ledger.forget_tokens(101.0, 1)) == (0, 1)
    assert len(ledger.api_tokens()) == 1


def test_ended_requests_are_forgotten(url: str) -> None:
    now = [10.0]
    ledger = open_ledger(url, now=lambda: now[0])
    keys = [RequestKey(user="ada", key=f"k-{number}", digest="d", endpoint="quota.set",
                       attempt=f"a-{number}") for number in range(3)]  # fmt: skip
    for number, key in enumerate(keys):
        with working_for(key):
            ledger.set_quota(Quota(tenant=f"t{number}"))
    for key in keys[:2]:
        ledger.end_request(key, {"answer": {}})
    assert (ledger.forget_requests(10.0, 100), ledger.forget_requests(11.0, 1)) == (0, 1)
    assert (ledger.forget_requests(11.0, 9), ledger.forget_requests(11.0, 9)) == (1, 0)
    assert ledger.api_request("ada", "k-2") is not None, "its operation may go on"
    assert ledger.forget_requests(11.0 + 31 * 86_400, 9) == 1
