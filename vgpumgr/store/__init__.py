"""The ledger: what was asked, promised and done, in SQLite or PostgreSQL."""

from vgpumgr.store.admin.migrations import Migration
from vgpumgr.store.admin.opening import migrate_ledger
from vgpumgr.store.sql_ledger import SqlLedger, open_ledger

__all__ = ["Migration", "SqlLedger", "migrate_ledger", "open_ledger"]
