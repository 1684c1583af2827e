"""Layouts: the declared partitioning of GPUs, planned and applied."""
