"""Pages of access: who may do what, tokens, logins, and the own account."""

from __future__ import annotations

from vgpumgr.access.roles import MEANINGS, PERMISSIONS
from vgpumgr.model.role_binding import Role
from vgpumgr.web.listing import ChangeForm, Column, Listing, RowAction, list_page
from vgpumgr.web.page import Page, PageRead
from vgpumgr.web.questions import Choice, Question, at, one, several

_BINDING = (
    Choice("subject", "Subject", "text", "user:ada, group:cad, local:root"),
    Choice("role", "Role", "text", ", ".join(Role)),
    Choice("tenant", "Tenant", "text", "* for all of them"),
)
_TOKEN = (
    Choice("name", "Name", "text"),
    Choice("role", "Role", "text", ", ".join(Role)),
    Choice("tenant", "Tenant", "text", "* for all of them"),
    Choice("lifetime_s", "Lifetime, in seconds", "number"),
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
    (ChangeForm("role.grant", "Grant a role", _BINDING),),
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
    (ChangeForm("token.create", "New token", _TOKEN),),
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
)

PAGES = (
    list_page("/access", "Access", "role.list", _ROLES, template="access.html"),
    list_page("/tokens", "Tokens", "token.list", _TOKENS),
    list_page("/sessions", "Logins", "auth.session.list", _SESSIONS),
    Page(
        path="/roles",
        title="Roles",
        section="Access",
        template="roles.html",
        reads=(PageRead("me", "auth.whoami"),),
        more=lambda _answers, _place: {"roles": PERMISSIONS, "meanings": MEANINGS},
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
        text=one("Grant a role to", "subject"),
        button="Grant",
        back=at("/access"),
        shown=("subject", "role", "tenant"),
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
        text=one("Make the token"),
        button="Make it",
        back=at("/tokens"),
        shown=("name", "role", "tenant", "lifetime_s"),
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
