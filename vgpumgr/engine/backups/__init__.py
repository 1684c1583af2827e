"""Backups of VMs: made, verified, restored, deleted, and kept as their targets say."""
