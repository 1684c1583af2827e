"""Reaching hosts: SSH with pinned keys, the helper over it, libvirt through our own bridge."""
