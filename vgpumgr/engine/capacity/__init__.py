"""Capacity: how much still fits, for how long, and why a request does not."""
