"""What the ledger knows of secrets: who set which, and what uses it."""

from __future__ import annotations

import pytest

from tests.unit.store.values import open_ledger
from vgpumgr.model.errors import Conflict, InUse, NotFound
from vgpumgr.model.host import Fence, HostRecord
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.secret import MOST_SECRETS, SecretReference

DIGESTS = ("1" * 64, "2" * 64)


def test_a_secret_is_known_by_who_set_it_last(url: str) -> None:
    ledger = open_ledger(url, by="ada@desk")
    for digest in DIGESTS:
        ledger.set_secret("cad", "licence", digest)
    ledger.set_secret(EVERY_TENANT, "bmc-1", DIGESTS[0])
    fleets, tenants = ledger.secrets()
    assert (fleets.tenant, fleets.name) == (EVERY_TENANT, "bmc-1")
    assert (tenants.name, tenants.digest) == ("licence", DIGESTS[1])
    assert tenants.set_by == "ada@desk" and tenants.set_at
    ledger.remove_secret("cad", "licence")
    assert ledger.secrets() == (fleets,)
    with pytest.raises(NotFound, match="no secret licence"):
        ledger.remove_secret("cad", "licence")
    told = [(each.event, each.detail) for each in reversed(ledger.audit(event="secret"))]
    licence = "licence of tenant cad"
    assert told == [
        ("secret.set", licence),
        ("secret.set", licence),
        ("secret.set", "bmc-1 of the fleet"),
        ("secret.removed", licence),
    ]
    assert not any(digest in str(ledger.audit()) for digest in DIGESTS)


def test_one_that_is_used_is_removed_by_force_alone(url: str) -> None:
    ledger = open_ledger(url)
    fence = Fence(off=("/bin/off", "{secret}"), status=("/bin/s",), secret="bmc-1")
    ledger.add_host(HostRecord(name="h1", address="sim://h1", fence=fence))
    ledger.set_secret(EVERY_TENANT, "bmc-1", DIGESTS[0])
    ledger.set_secret("cad", "bmc-1", DIGESTS[0])
    user = SecretReference(tenant=EVERY_TENANT, name="bmc-1", user="host h1")
    assert ledger.secret_references() == (user,)
    ledger.remove_secret("cad", "bmc-1")  # of another tenant: the fleet's is meant
    with pytest.raises(InUse) as refused:
        ledger.remove_secret(EVERY_TENANT, "bmc-1")
    assert "host h1" in refused.value.why and "--force" in refused.value.next
    ledger.remove_secret(EVERY_TENANT, "bmc-1", force=True)
    assert ledger.secrets() == ()


def test_a_tenant_has_so_many_at_most(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from vgpumgr.store.ledger import secrets

    assert MOST_SECRETS >= 100
    monkeypatch.setattr(secrets, "MOST_SECRETS", 2)
    ledger = open_ledger(url)
    for name in ("a", "b", "b"):
        ledger.set_secret("cad", name, DIGESTS[0])
    with pytest.raises(Conflict, match="tenant cad has 2 secrets already"):
        ledger.set_secret("cad", "c", DIGESTS[0])
    ledger.set_secret("red", "c", DIGESTS[0])
