"""The ledger: what was asked, promised and done, in SQLite or PostgreSQL."""

from vgpumgr.store.ledger import SqlLedger, open_ledger
from vgpumgr.store.migrate import Migration
from vgpumgr.store.opening import migrate_ledger

__all__ = ["Migration", "SqlLedger", "migrate_ledger", "open_ledger"]
