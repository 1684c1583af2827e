"""Real nvidia-ml-py over Python objects that stand in for ``libnvidia-ml.so``."""

from vgpumgr.sim.nvidia.nvml.library import module

__all__ = ["module"]
