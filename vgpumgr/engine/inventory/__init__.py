"""Inventory: the ledger and the last observation as one reading of hosts and GPUs."""
