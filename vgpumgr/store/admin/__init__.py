"""Administration of a whole ledger: opening, migration, backup, restore, check."""
