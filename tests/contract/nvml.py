"""NVML by hand: what only the driver itself can be asked, because the helper asks first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_MIB = 1 << 20
_SUCCESS = "SUCCESS"


@dataclass(frozen=True)
class Nvml:
    """``library`` gives nvidia-ml-py as it is on the host. A status is NVML's name: ``IN_USE``."""

    library: Callable[[], Any]

    def used_mib(self, gpu: str) -> int:
        """Frame buffer in use."""
        with self._session() as nvml:
            return int(nvml.nvmlDeviceGetMemoryInfo(_handle(nvml, gpu)).used) // _MIB

    def set_mig_mode(self, gpu: str, on: bool) -> str:
        """The status of the call; the activation status where the call itself succeeds."""
        return self._status(lambda nvml: nvml.nvmlDeviceSetMigMode(_handle(nvml, gpu), int(on)))

    def set_mixed_size(self, gpu: str, on: bool) -> str:
        """The status."""

        def ask(nvml: Any) -> None:
            nvml.nvmlDeviceSetVgpuHeterogeneousMode(_handle(nvml, gpu), int(on))

        return self._status(ask)

    def destroy_instance(self, gpu: str, number: int) -> str:
        """The status; compute instances are left to the caller."""

        def ask(nvml: Any) -> None:
            instance = nvml.nvmlDeviceGetGpuInstanceById(_handle(nvml, gpu), number)
            nvml.nvmlGpuInstanceDestroy(instance)

        return self._status(ask)

    def _status(self, ask: Callable[[Any], Any]) -> str:
        with self._session() as nvml:
            try:
                answer = ask(nvml)
            except nvml.NVMLError as error:
                return _name(nvml, error.value)
            return _SUCCESS if answer is None else _name(nvml, answer)

    @contextmanager
    def _session(self) -> Iterator[Any]:
        nvml = self.library()
        nvml.nvmlInit()
        try:
            yield nvml
        finally:
            nvml.nvmlShutdown()


def _handle(nvml: Any, gpu: str) -> Any:
    return nvml.nvmlDeviceGetHandleByPciBusId(gpu)


def _name(nvml: Any, code: int) -> str:
    names = (name for name in vars(nvml) if name.startswith("NVML_ERROR_"))
    found = next((name for name in names if getattr(nvml, name) == code), "NVML_SUCCESS")
    return found.removeprefix("NVML_ERROR_").removeprefix("NVML_")
