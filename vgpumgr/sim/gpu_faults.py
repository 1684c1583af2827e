"""Making one GPU of a simulated host misbehave. Volatile: a reboot mends it, as ``clear`` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from vgpumgr.model.errors import NotFound, UsageError
from vgpumgr.sim.drivers.failures import KINDS
from vgpumgr.sim.faults import count_of
from vgpumgr.sim.forms import FORMS
from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.nvidia.gpu import NvidiaGpu
from vgpumgr.sim.nvidia.health import FELL_OFF_THE_BUS, Health, RemappedRows

# Double-bit ECC error, then a remapped row that waits for a reset (xid.yaml).
_ECC_XIDS = (48, 63)
_NVML = "nvml"


def inject(kernel: Kernel, address: str, words: Sequence[str]) -> None:
    """``lost``, ``xid N``, ``ecc``, ``remap-failed``, ``hidden``, ``client NAME`` or
    ``fail WHAT COUNT`` on the GPU there.

    NotFound for another address; UsageError for other words, and for all but ``lost`` on a GPU
    that is not NVIDIA's.
    """
    known = [gpu.address for gpu in kernel.gpus]
    if address not in known:
        raise NotFound(
            f"{kernel.host.name} has no GPU {address}", next=f"one of: {', '.join(known)}"
        )
    gpu = kernel.nvidia.get(address)
    if list(words) == ["lost"]:
        _lose(kernel, address)
        return
    if gpu is None:
        raise UsageError(f"{address} is not on NVIDIA's driver", next="it can be: lost")
    _inject_nvidia(kernel, gpu, list(words))


def clear(kernel: Kernel) -> None:
    """All GPUs are well again, no program holds one, and no call fails."""
    kernel.failures.clear()
    for function in kernel.pci.functions.values():
        function.lost = False
    for gpu in kernel.nvidia.values():
        gpu.health = Health(gpu.address)
        gpu.fail_next.clear()
        kernel.processes.stop(gpu.address)


def words(kernel: Kernel) -> tuple[str, ...]:
    """What is wrong, in the words of ``inject``."""
    return tuple(
        f"gpu {gpu.address} {each}" for gpu in kernel.gpus for each in _words(kernel, gpu.address)
    )


def _inject_nvidia(kernel: Kernel, gpu: NvidiaGpu, fault: list[str]) -> None:
    match fault:
        case ["xid", number]:
            gpu.xid(count_of(number))
            if gpu.lost:
                _lose(kernel, gpu.address)
        case ["ecc"]:
            for each in _ECC_XIDS:
                gpu.xid(each)
            gpu.health.rows = RemappedRows(uncorrectable=1, pending=True)
        case ["remap-failed"]:
            gpu.health.rows = RemappedRows(uncorrectable=1, failure=True)
        case ["hidden"]:
            gpu.health.hidden = True
        case ["client", name]:
            kernel.processes.start(gpu.address, name)
        case ["fail", what, count] if what in KINDS:
            kernel.failures.add(gpu.address, what, count_of(count))
        case ["fail", what, count] if what.startswith(_NVML):
            gpu.fail_next += [(what, "IN_USE")] * count_of(count)
        case ["fail", what, _]:
            known = ", ".join((*KINDS, "nvml…"))
            raise UsageError(f"no call {what!r} to fail", next=f"one of: {known}")
        case _:
            raise UsageError(f"{' '.join(fault)!r} is not a known fault of a GPU", next=FORMS)


def _lose(kernel: Kernel, address: str) -> None:
    """It falls off the bus, with all functions of its slot and its VFs (Xid 79)."""
    for function in kernel.slot(address):
        function.lost = True
    gpu = kernel.nvidia.get(address)
    if gpu is not None and not gpu.lost:
        gpu.xid(FELL_OFF_THE_BUS)


def _words(kernel: Kernel, address: str) -> Iterator[str]:
    if kernel.pci.functions[address].lost:
        yield "lost"
    gpu = kernel.nvidia.get(address)
    if gpu is None:
        return
    yield from (f"xid {number}" for number in gpu.health.xids if number != FELL_OFF_THE_BUS)
    yield from ("remap-failed",) * gpu.health.rows.failure
    yield from ("hidden",) * gpu.health.hidden
    yield from (f"client {name}" for name in sorted(gpu.clients))
    yield from kernel.failures.words(address)
    yield from (
        f"fail {name} {count}" for name, count in Counter(n for n, _ in gpu.fail_next).items()
    )
