"""The ``figures`` verb: what every GPU of the host measures of itself now, in one round trip.

It changes nothing, never fails, and has a deadline of its own: a driver that hangs costs the
figures that it would have told, and no more.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

from vgpumgr.helper import VERSION, pci
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import ProbeParts, reason
from vgpumgr.helper.facts import pci_devices, sysfs_figures, xid_counts
from vgpumgr.helper.facts.xid_counts import XidCounts
from vgpumgr.helper.figure_table import (
    AER_FIGURES,
    GPU_FIGURES,
    INSTANCE_FIGURES,
    VGPU_FIGURES,
    Figure,
    within,
)
from vgpumgr.helper.nvidia import gpu_figures, nvml_session, vgpu_figures
from vgpumgr.helper.nvidia.instance_figures import BETWEEN_SAMPLES_S, InstanceSamples
from vgpumgr.helper.nvidia.nvml_session import NvmlSession
from vgpumgr.helper.system import System

# NVIDIA's library takes up to a second to start where no program keeps the GPUs awake.
DEADLINE_S = 10.0
ALONE = "/run/vgpumgr/figures.lock"
_NVIDIA, _NVML = "nvidia", "nvml"
_WAITED_IN_VAIN = frozenset({errno.ETIMEDOUT, errno.EBUSY})


def figures(call: Call) -> dict[str, Any]:
    """Every GPU; what could not be read is left out, or named in ``unknown``.

    ``hung``: NVIDIA's driver did not answer in time, or still owes an answer of before.
    """
    system, parts = call.system, ProbeParts()
    now = system.now()
    gpus = [_gpu(system, each, parts) for each in _addresses(system, parts)]
    counts = parts.read("kernel-log", xid_counts.read, system)
    told, hung = _by_nvml(system, [g["address"] for g in gpus if g["driver"] == _NVIDIA], parts)
    for each in gpus:
        each.update(_xids(counts, each))
        _join(each, told["gpus"].get(each["address"]))
    return {
        "helper": VERSION,
        "now": now,
        "driver": told["driver"],
        "hung": hung,
        "gpus": gpus,
        "unknown": [*parts.unknown, *told["unknown"]],
    }


def _addresses(system: System, parts: ProbeParts) -> Sequence[str]:
    return parts.read("devices", pci_devices.addresses, system) or ()


def _gpu(system: System, address: str, parts: ProbeParts) -> dict[str, Any]:
    driver = parts.read(f"devices {address} driver", pci.driver, system, address)
    found = sysfs_figures.read(system, address, driver)
    errors = {name: found[name] for name in AER_FIGURES if name in found}
    return {
        "address": address,
        "driver": driver,
        "figures": {**within(GPU_FIGURES, found), **errors},
    }


def _xids(counts: XidCounts | None, gpu: dict[str, Any]) -> dict[str, Any]:
    """Of a GPU that is with a guest the host's log has no Xids: that is told, and no zeroes."""
    if counts is None or gpu["driver"] != _NVIDIA:
        return {"xids": None, "last_xid": None}
    codes, last = counts.of(gpu["address"])
    return {"xids": codes, "last_xid": last}


def _by_nvml(
    system: System, addresses: list[str], parts: ProbeParts
) -> tuple[dict[str, Any], bool]:
    nothing: dict[str, Any] = {"driver": None, "gpus": {}, "unknown": []}
    if not addresses:
        return nothing, False
    try:
        told = system.detached(lambda: _asked(system, addresses), DEADLINE_S, ALONE)
    except OSError as error:
        parts.miss(_NVML, reason(error))
        return nothing, error.errno in _WAITED_IN_VAIN
    return told, False


def _asked(system: System, addresses: list[str]) -> dict[str, Any]:
    """What NVML tells, by address; it is JSON, since another process asks for it."""
    parts = ProbeParts()
    found = parts.read(_NVML, _session, system, addresses) or {"driver": None, "gpus": {}}
    return {**found, "unknown": parts.unknown}


def _session(system: System, addresses: list[str]) -> dict[str, Any]:
    with nvml_session.session(system) as session:
        driver = session.ask("nvmlSystemGetDriverVersion")
        handles = {each: _handle(session, each) for each in addresses}
        known = {address: gpu for address, gpu in handles.items() if gpu is not None}
        samples = {address: InstanceSamples(session, gpu) for address, gpu in known.items()}
        gpus = {address: _of_gpu(session, gpu) for address, gpu in known.items()}
        if any(each.waits for each in samples.values()):
            system.wait(BETWEEN_SAMPLES_S)
        for address, each in samples.items():
            gpus[address]["instances"] = _sensible(INSTANCE_FIGURES, each.read())
        return {"driver": driver, "gpus": gpus}


def _handle(session: NvmlSession, address: str) -> Any:
    return session.ask("nvmlDeviceGetHandleByPciBusId", nvml_session.bus_id(address))


def _of_gpu(session: NvmlSession, gpu: Any) -> dict[str, Any]:
    return {
        "uuid": session.ask("nvmlDeviceGetUUID", gpu),
        "vbios": session.ask("nvmlDeviceGetVbiosVersion", gpu),
        "figures": within(GPU_FIGURES, gpu_figures.read(session, gpu)),
        "vgpus": _sensible(VGPU_FIGURES, vgpu_figures.read(session, gpu)),
    }


def _sensible(
    table: Sequence[Figure], told: list[dict[str, Any]] | None
) -> list[dict[str, Any]] | None:
    if told is None:
        return None
    return [{**each, "figures": within(table, each["figures"])} for each in told]


def _join(gpu: dict[str, Any], told: dict[str, Any] | None) -> None:
    """``answered``: NVML told of it."""
    gpu["answered"] = told is not None
    for name in ("uuid", "vbios", "vgpus", "instances"):
        gpu[name] = told[name] if told is not None else None
    if told is not None:
        gpu["figures"] = {**told["figures"], **gpu["figures"]}
