"""Healing: remedies for drift, and what only an operator can do."""
