"""Pools of alike GPUs under arrivals and departures: MIG slices and vGPU desktops."""
