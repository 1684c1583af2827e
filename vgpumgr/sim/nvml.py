"""NVML as the helper gets it on a simulated host."""

from vgpumgr.sim.nvidia.nvml import module

__all__ = ["module"]
