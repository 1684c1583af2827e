"""Scores of every request type on every host, re-scored only on hosts that change."""
