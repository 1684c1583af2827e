"""Versions as programs print them, and what a live move needs."""

from __future__ import annotations

import re
from types import MappingProxyType

# Live moves of a VM with a vGPU (NVIDIA AI Enterprise documentation; OpenStack Nova's guide to
# virtual GPUs).
LIVE_VGPU_NEEDS = MappingProxyType({"libvirt": (8, 6), "qemu": (8, 1), "kernel": (5, 18)})


def numbers(version: str) -> tuple[int, ...]:
    """The leading ones: ``6.12.43-amd64`` → (6, 12, 43); () for an unknown version."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found.group().split("."))) if found else ()
