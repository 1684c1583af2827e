"""Defragmentation: the VMs to move so that whole GPUs are empty, or a request fits."""
