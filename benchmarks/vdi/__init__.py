"""A working day of VDI pools, on virtual time."""
