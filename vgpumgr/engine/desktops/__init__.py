"""Desktops of VDI pools as plain values: state, user sessions, booked capacity, and the pool
controller's decision. No I/O and no clock.
"""
