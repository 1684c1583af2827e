"""All guards, and the stores that each is tried on."""

from __future__ import annotations

from tests.guards import of_engine, of_helper, of_ledger, of_scopes

SQLITE, POSTGRESQL = "sqlite", "postgresql"

GUARDS = (*of_ledger.GUARDS, *of_helper.GUARDS, *of_engine.GUARDS, *of_scopes.GUARDS)
CASES = tuple(
    (guard, store)
    for guard in GUARDS
    for store in ((SQLITE, POSTGRESQL) if guard.server_too else (SQLITE,))
)
