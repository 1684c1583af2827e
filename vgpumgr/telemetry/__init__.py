"""Series of metrics: what hosts measure, joined with what the ledger knows of it."""
