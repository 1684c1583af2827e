"""The ledger's database: connections, commits, locks, faults of SQLite or PostgreSQL."""
