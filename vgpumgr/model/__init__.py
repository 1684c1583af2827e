"""Frozen values in the field's words. Standard library only; no I/O, no clock, no randomness."""
