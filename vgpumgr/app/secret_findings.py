"""What `doctor` finds about secrets: whether they are missing, changed, or open to others."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.app.composition import App
from vgpumgr.model.examination import CheckOutcome, Finding
from vgpumgr.model.formats import counted
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.secret import SecretState, by_secret

_CHECK = "secrets"
_SAYS = {
    SecretState.CHANGED: "has another value than was set, or its key is another",
    SecretState.MISSING: "has no value on this machine",
}


def secret_findings(app: App) -> Iterator[Finding]:
    """Nothing where there are no secrets."""
    records = {(each.tenant, each.name): each for each in app.ledger.secrets()}
    users = by_secret(app.ledger.secret_references())
    every = sorted({*records, *users, *app.secrets.names()})
    sound = True
    for tenant, name in every:
        state, why = app.secrets.state(tenant, name, records.get((tenant, name)))
        if state in {SecretState.PRESENT, SecretState.UNRECORDED}:
            continue
        sound = False
        used = f" (used by {', '.join(by)})" if (by := users.get((tenant, name))) else ""
        whose = "" if tenant == EVERY_TENANT else f" of tenant {tenant}"
        says = why or _SAYS[state]
        yield _bad(f"{name}{whose} {says}{used}", f"vgpumgr secret set {name} --tenant '{tenant}'")
    if every and sound:
        yield Finding(check=_CHECK, mark=CheckOutcome.OK, text=counted(len(every), "secret"))


def _bad(text: str, next: str) -> Finding:
    return Finding(check=_CHECK, mark=CheckOutcome.BAD, text=text, next=next)
