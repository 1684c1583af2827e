"""Defragmentation: VMs moved so that whole GPUs are empty or a request fits."""
