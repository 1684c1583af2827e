"""A session with NVIDIA's library, and how its refusals become ours.

Every session is short: sriov-manage and a reset fail while any NVML client holds the GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
from collections.abc import Iterator
from typing import Any

from vgpumgr.helper import errors
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

# What an NVML code means for the caller; every other refusal is ``refused``.
_CODES = {
    "NVML_ERROR_IN_USE": (errors.IN_USE, errno.EBUSY),
    "NVML_ERROR_NO_PERMISSION": (errors.NOT_PERMITTED, errno.EPERM),
    "NVML_ERROR_NOT_FOUND": (errors.NOT_FOUND, errno.ENOENT),
    "NVML_ERROR_INSUFFICIENT_RESOURCES": (errors.REFUSED, errno.ENOSPC),
    "NVML_ERROR_TIMEOUT": (errors.UNKNOWN, errno.ETIMEDOUT),
    "NVML_ERROR_UNKNOWN": (errors.UNKNOWN, errno.EIO),
    "NVML_ERROR_GPU_IS_LOST": (errors.UNKNOWN, errno.ENODEV),
}
_ABSENT = (
    "NVML_ERROR_NOT_SUPPORTED",
    "NVML_ERROR_FUNCTION_NOT_FOUND",
    "NVML_ERROR_INVALID_ARGUMENT",  # a number that an older library does not know
    "NVML_ERROR_ARGUMENT_VERSION_MISMATCH",  # a structure that it does not know
)


class NvmlSession:
    """The library between nvmlInit and nvmlShutdown.

    ``codes`` collects the NVML codes of questions that were not answered; ``code`` is that of the
    last question, 0 when it was. ``types`` keeps what was told of vGPU types, by their numbers.
    """

    def __init__(self, library: Any) -> None:
        self.library = library
        self.codes: set[int] = set()
        self.code = 0
        self.types: dict[int, dict[str, Any]] = {}

    def ask(self, function: str, *given: Any) -> Any:
        """What a function returns, text as str; None where the library or driver refuses."""
        try:
            found = _plain(getattr(self.library, function)(*given))
        except self.library.NVMLError as error:
            self.code = int(error.value)
            self.codes.add(self.code)
            return None
        self.code = 0
        return found

    def ask_number(self, function: str, *given: Any) -> int | None:
        """A number of 64 bits, by the library's own function of that C name."""
        place = ctypes.c_ulonglong()
        try:
            code = self.library._nvmlGetFunctionPointer(function)(*given, ctypes.byref(place))
        except self.library.NVMLError as error:
            code = error.value
        self.code = int(code)
        if self.code:
            self.codes.add(self.code)
            return None
        return int(place.value)

    def tell(self, message: str, function: str, *given: Any) -> Any:
        """As ``ask``; but None only where the driver has no such thing, else an error."""
        found = self.ask(function, *given)
        if self.code and not self.absent():
            raise HelperError(errors.UNKNOWN, message, f"NVML: code {self.code}")
        return found

    def absent(self) -> bool:
        """Whether the last question was about something that board, driver or library lack."""
        return any(self.code == getattr(self.library, name) for name in _ABSENT)

    def must(self, message: str, function: str, *given: Any) -> Any:
        """What a function returns; its refusal is an error that says ``message``."""
        try:
            return _plain(getattr(self.library, function)(*given))
        except self.library.NVMLError as error:
            raise self.refusal(error, message) from error

    def refusal(self, error: Any, message: str) -> HelperError:
        """An NVMLError as an error of ours."""
        for name, (code, number) in _CODES.items():
            if error.value == getattr(self.library, name):
                return HelperError(code, message, f"NVML: {error}", errno.errorcode[number])
        return HelperError(errors.REFUSED, message, f"NVML: {error}")

    def said(self, name: str) -> bool:
        """Whether any question was answered with that code: ``NVML_ERROR_GPU_IS_LOST``."""
        return getattr(self.library, name) in self.codes

    def gpu(self, address: str) -> Any:
        """The handle of the GPU at a PCI address."""
        message = f"NVML does not know {address}"
        return self.must(message, "nvmlDeviceGetHandleByPciBusId", bus_id(address))


@contextlib.contextmanager
def session(system: System) -> Iterator[NvmlSession]:
    """``unknown`` where the library is not there or does not start."""
    library = system.nvml()
    if library is None:
        raise HelperError(errors.UNKNOWN, "nvidia-ml-py is not installed beside the helper")
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise HelperError(errors.UNKNOWN, "libnvidia-ml.so.1", str(error)) from error
    opened = NvmlSession(library)
    try:
        yield opened
    finally:
        opened.ask("nvmlShutdown")


def bus_id(address: str) -> str:
    """NVML writes eight digits of domain (``00000000:41:00.0``), the kernel at least four."""
    domain, _, rest = address.partition(":")
    return f"{int(domain, 16):08x}:{rest}"


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
