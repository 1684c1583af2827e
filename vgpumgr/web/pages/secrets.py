"""The page of secrets: which there are and what uses them, never a value."""

from __future__ import annotations

from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.web.listing import Column, Listing, NewThing, RowAction, list_page
from vgpumgr.web.page import PageRead
from vgpumgr.web.questions import Answers, Choice, Question, at, one

_SECRETS = Listing(
    (
        Column("Secret", "name"),
        Column("Tenant", "tenant"),
        Column("State", "state", "state"),
        Column("Why", "why"),
        Column("Set", "set_at", "when"),
        Column("By", "set_by"),
        Column("Used by", "users", "list"),
    ),
    (
        RowAction("secret.set", "Replace", {"name": "name", "tenant": "tenant"}),
        RowAction("secret.remove", "Remove", {"name": "name", "tenant": "tenant"}),
    ),
    (NewThing("secret.set", "Set a secret"),),
    hint="name, tenant, state",
    intro="Values are files of the controller. They are set here, and shown nowhere.",
)


def _tenants(answers: Answers) -> list[tuple[str, str]]:
    known = [each["tenant"] for each in (answers["quotas"] or {"items": ()})["items"]]
    return [(EVERY_TENANT, "the fleet"), *((each, each) for each in known)]


PAGES = (list_page("/secrets", "Secrets", "secret.list", _SECRETS, section="Access"),)

QUESTIONS = (
    Question(
        endpoint="secret.set",
        text=one("Set the secret"),
        button="Set",
        back=at("/secrets"),
        choices=(
            Choice("name", "Name", "text", "small letters, digits and -", required=True),
            Choice(
                *("tenant", "Tenant", "text", "The name of one, or * for the fleet itself."),
                options=_tenants,
                required=True,
            ),
            Choice("value", "Value", "password", required=True),
        ),
        reads=(PageRead("quotas", "quota.list", needed=False),),
        intro="What uses it reads the new value at its next use. A file: vgpumgr secret set --file",
    ),
    Question(
        endpoint="secret.remove",
        text=one("Remove the secret"),
        button="Remove",
        back=at("/secrets"),
        shown=("tenant",),
        choices=(Choice("force", "Remove it even where something uses it"),),
        ends_something=True,
    ),
)
