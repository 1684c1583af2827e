"""Recovery of a ledger that is older than its hosts, after a backup was restored."""
