"""Ledger and observation as they would be otherwise: values in, values out, nothing changes."""
