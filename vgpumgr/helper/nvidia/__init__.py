"""NVIDIA's interfaces: NVML, a VF's files, Fabric Manager, and how they refuse."""
