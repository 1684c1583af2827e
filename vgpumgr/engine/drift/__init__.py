"""Drift: every difference between the ledger and the hosts, by name; nothing is changed."""
