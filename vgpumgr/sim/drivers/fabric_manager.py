"""Fabric Manager in shared NVSwitch mode, and its client ``fmpm``.

Return codes as in nv_fm_types.h, texts and exit status of fmpm.cpp (NVIDIA/Fabric-Manager-Client).
A VM whose GPUs are no active partition starts all the same: its guest's cuInit fails with 802.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from vgpumgr.catalog import FabricBoard, FabricPartitionRow
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu

SUCCESS, BADPARAM, UNINITIALIZED, IN_USE, NOT_CONFIGURED = 0, -1, -4, -7, -8

# It initialises for a while after boot, and knows nothing meanwhile.
STARTS_S = 1.0

_MOST_PARTITIONS = 64
_LINE_RATES = {"uuid": 25781, "module-id": 26562}
_HELP = (
    "-l : List partitions\n"
    "-a <Partition ID> : Activate partition\n"
    "-d <Partition ID> : Deactivate partition\n"
)


class FabricManager:
    """The partitions of one NVSwitch board. ``gpus`` by physicalId; ``now`` is the host's clock."""

    def __init__(
        self, board: FabricBoard, gpus: Mapping[int, NvidiaGpu], now: Callable[[], float]
    ) -> None:
        self._board = board
        self._gpus = gpus
        self._now = now
        self._ready_at = now() + STARTS_S
        self._nvlinks = max(each.nvlinks for each in board.partitions)
        self.active: dict[int, FabricPartitionRow] = {}
        for number, gpu in gpus.items():
            # On A100 NVML's module id is another number: only UUID and address tell (fmug).
            gpu.module_id = number if board.identity == "module-id" else len(gpus) + 1 - number
            gpu.nvlinks = self._nvlinks
        self._tell_gpus()

    def settle(self) -> None:
        """Let the start-up time of Fabric Manager be over."""
        self._ready_at = self._now()

    def is_up(self) -> bool:
        """Is its start-up time over?"""
        return self._now() >= self._ready_at

    def run(self, argv: Sequence[str]) -> tuple[int, str]:
        """``fmpm ARGV…``: exit status and output."""
        match list(argv):
            case [] | ["-h"]:
                return 0, _HELP
            case ["-l"]:
                return self._list()
            case ["-a", number]:
                return self._done("activate", number, self.activate)
            case ["-d", number]:
                return self._done("deactivate", number, self.deactivate)
        return _exit(BADPARAM), "Invalid argument.\n\n"

    def activate(self, number: int) -> int:
        """IN_USE: active already, or one of its GPUs is in another active partition."""
        found = self._find(number)
        if isinstance(found, int):
            return found
        taken = {gpu for each in self.active.values() for gpu in each.gpus}
        if taken.intersection(found.gpus):
            return IN_USE
        self.active[number] = found
        self._tell_gpus()
        return SUCCESS

    def deactivate(self, number: int) -> int:
        """UNINITIALIZED: it is not active."""
        found = self._find(number)
        if isinstance(found, int):
            return found
        if self.active.pop(number, None) is None:
            return UNINITIALIZED
        self._tell_gpus()
        return SUCCESS

    def is_whole(self, addresses: Iterable[str]) -> bool:
        """Are the NVSwitch GPUs among these functions exactly one active partition, or none?"""
        wanted = set(addresses)
        found = {number for number, gpu in self._gpus.items() if gpu.address in wanted}
        return not found or any(found == set(each.gpus) for each in self.active.values())

    def _find(self, number: int) -> FabricPartitionRow | int:
        if not self.is_up():
            return NOT_CONFIGURED
        known = {each.id: each for each in self._board.partitions}
        return known.get(number, BADPARAM)

    def _done(self, doing: str, number: str, act: Callable[[int], int]) -> tuple[int, str]:
        if not number.isdigit() or int(number) >= _MOST_PARTITIONS:
            return _exit(BADPARAM), "Invalid Partition ID.\n"
        code = act(int(number))
        said = f"Failed to {doing} partition. fmReturn: {code}\n" if code else ""
        return _exit(code), said

    def _list(self) -> tuple[int, str]:
        if not self.is_up():
            said = f"Failed to get partition list. fmReturn: {NOT_CONFIGURED}\n"
            return _exit(NOT_CONFIGURED), said
        partitions = self._board.partitions
        answer = {
            "version": 1,
            "numPartitions": len(partitions),
            "maxNumPartitions": len(partitions),
            "partitionInfo": [self._partition(each) for each in partitions],
        }
        return 0, json.dumps(answer, indent=3, sort_keys=True) + "\n"

    def _partition(self, partition: FabricPartitionRow) -> dict[str, object]:
        return {
            "partitionId": partition.id,
            "isActive": int(partition.id in self.active),
            "numGpus": len(partition.gpus),
            "gpuInfo": [self._gpu(number, partition.nvlinks) for number in partition.gpus],
        }

    def _gpu(self, number: int, nvlinks: int) -> dict[str, object]:
        """From H100 on the list names neither UUID nor address."""
        gpu, named = self._gpus[number], self._board.identity == "uuid"
        return {
            "physicalId": number,
            "uuid": gpu.uuid if named else "",
            "pciBusId": f"0000{gpu.address}".upper() if named else "00000000:00:00.0",
            "numNvLinksAvailable": nvlinks,
            "maxNumNvLinks": self._nvlinks,
            "nvlinkLineRateMBps": _LINE_RATES[self._board.identity],
        }

    def _tell_gpus(self) -> None:
        """All GPUs are in progress until a partition with them is active."""
        active = {gpu for each in self.active.values() for gpu in each.gpus}
        for number, gpu in self._gpus.items():
            gpu.fabric_state = "completed" if number in active else "in-progress"


def _exit(code: int) -> int:
    """What a shell sees of a negative number."""
    return code & 0xFF
