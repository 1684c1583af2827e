"""Pages of access: who may do what, tokens, logins, and the own account."""

from __future__ import annotations

from typing import Any

from vgpumgr.access.permission import FLEET_WIDE, Permission
from vgpumgr.access.roles import MEANINGS, PERMISSIONS
from vgpumgr.model.role_binding import EVERY_TENANT, Role
from vgpumgr.web.listing import Column, Listing, NewThing, RowAction, list_page
from vgpumgr.web.page import Page, PageRead, Place
from vgpumgr.web.questions import Answers, Choice, Question, at, one, several

_LIFETIMES = (
    ("2592000", "30 days"),
    ("86400", "a day"),
    ("604800", "a week"),
    ("7776000", "90 days"),
    ("31536000", "a year"),
)


def _tenants(answers: Answers) -> list[tuple[str, str]]:
    known = [each["tenant"] for each in (answers["quotas"] or {"items": ()})["items"]]
    return [(EVERY_TENANT, "all tenants"), *((each, each) for each in known)]


_QUOTAS = (PageRead("quotas", "quota.list", needed=False),)
_ROLE = Choice(
    *("role", "Role", "select"),
    options=tuple((each.value, f"{each.value}: {MEANINGS[each]}") for each in Role),
)
_TENANT = Choice(
    *("tenant", "Tenant", "text", "The name of one, or * for all, now and later."),
    options=_tenants,
    required=True,
)
_ROLES = Listing(
    (
        Column("Subject", "subject"),
        Column("Role", "role"),
        Column("Tenant", "tenant"),
        Column("Since", "created_at", "when"),
        Column("Granted by", "created_by"),
    ),
    (
        RowAction(
            "role.revoke", "Revoke", {"subject": "subject", "role": "role", "tenant": "tenant"}
        ),
    ),
    (NewThing("role.grant", "Grant a role"),),
    hint="subject, role, tenant",
)
_TOKENS = Listing(
    (
        Column("Token", "name"),
        Column("Owner", "owner"),
        Column("Role", "role"),
        Column("Tenant", "tenant"),
        Column("Made", "created_at", "when"),
        Column("Good until", "expires_at", "when"),
        Column("Used", "last_used_at", "when"),
    ),
    (RowAction("token.revoke", "Revoke", {"names": "id"}),),
    (NewThing("token.create", "New token"),),
    hint="name, owner, role",
    intro="A token does what its role may do, and no more than its owner.",
)
_SESSIONS = Listing(
    (
        Column("User", "user"),
        Column("Groups", "groups", "list"),
        Column("By", "method"),
        Column("From", "address"),
        Column("Begun", "created_at", "when"),
        Column("Seen", "seen_at", "when"),
    ),
    (RowAction("auth.session.end", "End", {"names": "id"}),),
    hint="user, group, address",
)


def _table(_: dict[str, Any], __: Place) -> dict[str, Any]:
    """What each role may do, a row per permission."""
    rows = [
        (str(each), each in FLEET_WIDE, [each in PERMISSIONS[role] for role in Role])
        for each in Permission
    ]
    return {"rows": rows, "roles": [(role.value, MEANINGS[role]) for role in Role]}


PAGES = (
    list_page("/access", "Access", "role.list", _ROLES, template="access.html"),
    list_page("/tokens", "Tokens", "token.list", _TOKENS, section="Access"),
    list_page("/sessions", "Logins", "auth.session.list", _SESSIONS, section="Access"),
    Page(
        path="/roles",
        title="Roles",
        section="Access",
        template="roles.html",
        reads=(PageRead("me", "auth.whoami"),),
        live=False,
        more=_table,
    ),
    Page(
        path="/me",
        title="You",
        template="me.html",
        reads=(PageRead("me", "auth.whoami"), PageRead("sessions", "auth.session.list")),
    ),
)

QUESTIONS = (
    Question(
        endpoint="role.grant",
        text=one("Grant a role", "subject", "to"),
        button="Grant",
        back=at("/access"),
        choices=(
            Choice(
                *("subject", "To, as user:NAME or group:NAME", "text"),
                "user:ada as a login names them; group:cad for all of a group",
                required=True,
            ),
            _ROLE,
            _TENANT,
        ),
        reads=_QUOTAS,
        intro="It holds from the next request on.",
    ),
    Question(
        endpoint="role.revoke",
        text=one("Revoke a role of", "subject"),
        button="Revoke",
        back=at("/access"),
        shown=("subject", "role", "tenant"),
        ends_something=True,
    ),
    Question(
        endpoint="token.create",
        text=one("Make a token"),
        button="Make it",
        back=at("/tokens"),
        choices=(
            Choice("name", "Name", "text", required=True),
            _ROLE,
            _TENANT,
            Choice("lifetime_s", "Ends after", "select", options=_LIFETIMES),
        ),
        reads=_QUOTAS,
        intro="Its secret is shown once, on the next page. Who logged in by a token makes none.",
    ),
    Question(
        endpoint="token.revoke",
        text=several("Revoke", "token"),
        button="Revoke",
        back=at("/tokens"),
        ends_something=True,
    ),
    Question(
        endpoint="auth.session.end",
        text=several("End", "login"),
        button="End",
        back=at("/sessions"),
        ends_something=True,
    ),
)
