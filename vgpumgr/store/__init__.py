"""The ledger: what was asked, promised and done, in SQLite or PostgreSQL."""

from vgpumgr.store.ledger import SqlLedger, open_ledger

__all__ = ["SqlLedger", "open_ledger"]
