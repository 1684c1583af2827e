"""A simulated NVIDIA GPU: the resource manager's state and refusals, and NVML over it."""

from vgpumgr.sim.nvidia.gpu import NvidiaGpu
from vgpumgr.sim.nvidia.vgpu import Vgpu

__all__ = ["NvidiaGpu", "Vgpu"]
