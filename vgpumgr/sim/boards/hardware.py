"""The PCI functions of a simulated host and their addresses: the same at every boot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from vgpumgr import catalog
from vgpumgr.model.errors import UsageError
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.sim.boards.mdev_types import SAMPLES, SampleParent
from vgpumgr.sim.boards.pci_board import PciBoard, pci_board
from vgpumgr.sim.boards.unlisted_boards import UNLISTED

_FIRST_BUS = 0x40
_LAST_BUS = 0xFE
# Module ids in PCI order of one H100 host in NVIDIA's guide (fabric_partitions.yaml).
_MODULE_IDS = (5, 7, 6, 8, 1, 3, 2, 4)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical GPU: its board, its bus, the folder above it, its NUMA node.

    ``physical_id`` is Fabric Manager's number of it, None where there is none. ``vfs`` is the
    module option of AMD's driver.
    """

    board: PciBoard
    bus: int
    above: str
    numa_node: int
    physical_id: int | None
    vfs: int

    @property
    def address(self) -> str:
        """Its function 0."""
        return f"0000:{self.bus:02x}:00.0"

    def path(self, function: int = 0) -> str:
        """The folder of one of its functions."""
        return f"{self.above}/0000:{self.bus:02x}:00.{function}"


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs and sample parents of one host."""

    gpus: tuple[Gpu, ...]
    samples: tuple[SampleParent, ...]


@cache
def hardware(host: SimHost) -> Hardware:
    """What ``host.boards`` stands for; UsageError for what cannot exist."""
    boards = list(_boards(host))
    places = list(_places([board for board, _ in boards]))
    if places and places[-1][0] > _LAST_BUS:
        raise UsageError(
            f"simulated host {host.name} has {len(boards)} GPUs",
            why="they do not fit its PCI buses",
        )
    ids = _physical_ids(host, [board for board, _ in boards])
    return Hardware(
        tuple(
            Gpu(
                board,
                *place,
                numa_node=index * host.numa_nodes // len(boards),
                physical_id=ids.get(index),
                vfs=vfs,
            )
            for index, ((board, vfs), place) in enumerate(zip(boards, places, strict=True))
        ),
        tuple(_samples(host)),
    )


def _boards(host: SimHost) -> Iterator[tuple[PciBoard, int]]:
    for each in host.boards:
        if each.board not in SAMPLES:
            board = UNLISTED.get(each.board) or pci_board(each.board)
            yield from [(board, each.vfs)] * each.count


def _places(boards: list[PciBoard]) -> Iterator[tuple[int, str]]:
    """Bus and folder above of each GPU; each board has a root port of its own."""
    root = _FIRST_BUS
    for board, alike in groupby(boards):
        left = len(list(alike))
        while left:
            together = min(left, board.gpus_per_board)
            yield from _on_one_board(root, together, switched=board.gpus_per_board > 1)
            root += _buses(board)
            left -= together


def _buses(board: PciBoard) -> int:
    """How many a board takes, root port included: an even number keeps the addresses regular."""
    needed = 2 if board.gpus_per_board == 1 else 3 + board.gpus_per_board
    return needed + needed % 2


def _on_one_board(root: int, count: int, *, switched: bool) -> Iterator[tuple[int, str]]:
    """A GPU below the root port, or several below the board's own switch."""
    port = f"/sys/devices/pci0000:{root:02x}/0000:{root:02x}:01.0"
    if not switched:
        yield root + 1, port
        return
    upstream = f"{port}/0000:{root + 1:02x}:00.0"
    for number in range(count):
        yield root + 3 + number, f"{upstream}/0000:{root + 2:02x}:{number:02x}.0"


def _physical_ids(host: SimHost, boards: list[PciBoard]) -> dict[int, int]:
    """Fabric Manager's numbers by index of the GPU; they do not follow the PCI order."""
    if not host.fabric:
        return {}
    fabric = catalog.fabric(host.fabric)
    if fabric is None:
        known = ", ".join(each.key for each in catalog.fabric_boards())
        raise UsageError(
            f"simulated host {host.name}: no NVSwitch board {host.fabric!r}", next=f"one of {known}"
        )
    found = [n for n, board in enumerate(boards) if catalog.fits_fabric(board.fabric, host.fabric)]
    if len(found) != fabric.gpus:
        raise UsageError(
            f"simulated host {host.name} has {len(found)} GPUs for {host.fabric}",
            why=f"the NVSwitch board carries exactly {fabric.gpus}",
        )
    return {
        index: place // len(_MODULE_IDS) * len(_MODULE_IDS) + _MODULE_IDS[place % len(_MODULE_IDS)]
        for place, index in enumerate(found)
    }


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
