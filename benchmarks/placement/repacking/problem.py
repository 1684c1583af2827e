"""A snapshot in numbers alone, for the oracle and for the checker."""

from __future__ import annotations

from typing import Any

from benchmarks.placement.repacking.snapshots import Snapshot
from vgpumgr.model.defrag import Resident

Problem = dict[str, Any]


def problem(snapshot: Snapshot, empty: int, seconds: float) -> Problem:
    """JSON: hosts, GPUs, and VMs with where they are."""
    hosts = {host.name: number for number, host in enumerate(snapshot.fleet.hosts)}
    gpus = [(host, gpu) for host in snapshot.fleet.hosts for gpu in host.gpus]
    index = {gpu.id: number for number, (_, gpu) in enumerate(gpus)}
    return {
        "hosts": [
            {"vcpus": host.free_vcpus, "memory_mib": host.free_memory_mib}
            for host in snapshot.fleet.hosts
        ],
        "gpus": [
            {
                "host": hosts[host.name], "units": gpu.units, "same_size": gpu.same_size,
                "slices": gpu.gpu_slices,
            }
            for host, gpu in gpus
        ],
        "vms": [_vm(each, index) for each in snapshot.residents],
        "empty": empty,
        "seconds": seconds,
    }  # fmt: skip


def _vm(resident: Resident, index: dict[str, int]) -> Problem:
    request, [part] = resident.placed.request, resident.placed.assignments
    offer = part.offer
    made = offer.instance
    return {
        "gpu": index[part.gpu],
        "at": part.start or 0,
        "units": offer.units if made is None else len(part.slots),
        "slices": made.gpu_slices if made else 0,
        "starts": {start.at: start.slots for start in offer.starts} or {0: ()},
        "vcpus": request.vcpus,
        "memory_mib": request.memory_mib,
        "group": request.labels.get("group", ""),
    }


def counted(problem: Problem) -> int:
    """A bound without a solver: all VMs of the GPUs that hold the fewest have to move."""
    held = [0] * len(problem["gpus"])
    for vm in problem["vms"]:
        held[vm["gpu"]] += 1
    return sum(sorted(held)[: problem["empty"]])
