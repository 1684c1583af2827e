"""Disk images in versions, and their copies on hosts."""
