"""Hosts that say anything: every field of every answer made nonsense, through real commands."""
