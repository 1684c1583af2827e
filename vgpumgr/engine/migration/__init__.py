"""Migration: VMs moved between hosts, between GPUs of one host, and after a logoff."""
