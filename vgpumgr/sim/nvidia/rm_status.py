"""The status codes with which NVIDIA's resource manager refuses, and their log lines."""

from __future__ import annotations

import errno
from enum import StrEnum


class RmStatus(StrEnum):
    """The names NVML gives them (``NVML_ERROR_…``); INVALID_OPERATION is seen in the log only."""

    GPU_IS_LOST = "GPU_IS_LOST"
    IN_USE = "IN_USE"
    INSUFFICIENT_RESOURCES = "INSUFFICIENT_RESOURCES"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    INVALID_OPERATION = "INVALID_OPERATION"
    NOT_FOUND = "NOT_FOUND"
    NOT_SUPPORTED = "NOT_SUPPORTED"
    RESET_REQUIRED = "RESET_REQUIRED"


# Source: nvstatuscodes.h of the open kernel modules; 0x56 is in a host's kernel log too.
LOG_CODES = {
    RmStatus.GPU_IS_LOST: 0x0F,
    RmStatus.INSUFFICIENT_RESOURCES: 0x1A,
    RmStatus.INVALID_OPERATION: 0x38,
    RmStatus.NOT_SUPPORTED: 0x56,
    RmStatus.NOT_FOUND: 0x57,
    RmStatus.IN_USE: 0x63,
}


class RmRefusal(Exception):
    """The resource manager's refusal."""

    def __init__(self, status: RmStatus) -> None:
        super().__init__(status)
        self.status = status


def log_lines(carrier: str, status: RmStatus) -> list[str]:
    """What the kernel logs when a vGPU is refused. Source: a host's log under R535."""
    return [
        f"NVRM: Failed to add vgpu create request: 0x{LOG_CODES[status]:x}",
        f"vGPU creation failed on device {carrier} -{errno.EIO}",
    ]
