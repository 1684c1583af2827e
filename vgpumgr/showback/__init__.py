"""Who used how much of which GPUs, and what it cost: exact, from what the ledger has kept."""
