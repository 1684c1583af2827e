"""Desktops of VDI pools as plain values: state, user sessions, booked capacity, and what the
pool controller decides. No I/O, no clock, no randomness.
"""
