"""What the resource manager says no with."""

from __future__ import annotations

import errno
from enum import StrEnum


class Status(StrEnum):
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
    Status.GPU_IS_LOST: 0x0F,
    Status.INSUFFICIENT_RESOURCES: 0x1A,
    Status.INVALID_OPERATION: 0x38,
    Status.NOT_SUPPORTED: 0x56,
    Status.NOT_FOUND: 0x57,
    Status.IN_USE: 0x63,
}


class Refused(Exception):
    """The resource manager's refusal."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


def log_lines(carrier: str, status: Status) -> list[str]:
    """What the kernel logs when a vGPU is refused. Source: a host's log under R535."""
    return [
        f"NVRM: Failed to add vgpu create request: 0x{LOG_CODES[status]:x}",
        f"vGPU creation failed on device {carrier} -{errno.EIO}",
    ]
