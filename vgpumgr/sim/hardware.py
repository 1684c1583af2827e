"""Which PCI functions a simulated host has, and where: the same at every boot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from vgpumgr.model.errors import UsageError
from vgpumgr.model.simulated import SimHost
from vgpumgr.sim.board import SAMPLES, PciBoard, SampleParent, pci_board

_FIRST_BUS = 0x41
_LAST_BUS = 0xFE


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical GPU: its board, the bus it sits on alone, its NUMA node."""

    board: PciBoard
    bus: int
    numa_node: int

    @property
    def address(self) -> str:
        """Its function 0."""
        return f"0000:{self.bus:02x}:00.0"

    def path(self, function: int = 0) -> str:
        """The folder of one of its functions, below a root port of its own."""
        root = f"/sys/devices/pci0000:{self.bus - 1:02x}/0000:{self.bus - 1:02x}:01.0"
        return f"{root}/0000:{self.bus:02x}:00.{function}"


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs and sample parents of one host."""

    gpus: tuple[Gpu, ...]
    samples: tuple[SampleParent, ...]


def hardware(host: SimHost) -> Hardware:
    """What ``host.boards`` stands for; UsageError for what cannot exist."""
    boards = list(_boards(host))
    most = (_LAST_BUS - _FIRST_BUS) // 2 + 1
    if len(boards) > most:
        raise UsageError(
            f"simulated host {host.name} has {len(boards)} GPUs",
            why=f"at most {most} fit its PCI buses",
        )
    nodes = host.numa_nodes
    return Hardware(
        tuple(
            Gpu(board, _FIRST_BUS + 2 * index, index * nodes // len(boards))
            for index, board in enumerate(boards)
        ),
        tuple(_samples(host)),
    )


def _boards(host: SimHost) -> Iterator[PciBoard]:
    for each in host.boards:
        if each.board not in SAMPLES:
            yield from [pci_board(each.board)] * each.count


def _samples(host: SimHost) -> Iterator[SampleParent]:
    counts: Counter[str] = Counter()
    for each in host.boards:
        counts[each.board] += each.count
    for name, parent in SAMPLES.items():
        if counts[name] > 1:
            raise UsageError(
                f"simulated host {host.name} has {counts[name]} of {name}",
                why="the kernel's sample driver makes one parent",
                next=f"write {{board: {name}, count: 1}} once",
            )
        if counts[name]:
            yield parent
