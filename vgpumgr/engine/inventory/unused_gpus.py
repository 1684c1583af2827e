"""GPUs that surely nobody uses, so that they may be partitioned anew without being asked for.

What is not known counts as use: a part of the probe that could not be read, a claim without an
allocation, a definition of a vGPU whose place nobody tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpumgr.engine.inventory.gpu_usage import HostContents
from vgpumgr.engine.inventory.host_supply import NEEDED_PARTS
from vgpumgr.model import formats
from vgpumgr.model.gpu import GpuFacts, GpuRecord, GpuState
from vgpumgr.model.layout import AUTOMATIC
from vgpumgr.model.supply import GpuSupply

_HOST_PARTS = NEEDED_PARTS | {"nvml", "mdevctl", "parents"}


def in_use(gpu: GpuRecord, supply: GpuSupply, host: HostContents) -> str:
    """Why a GPU of NVIDIA's driver may be somebody's; empty: nothing uses it, and nobody has
    declared how it is partitioned.
    """
    return next(_uses(gpu, supply, host), "")


def _uses(gpu: GpuRecord, supply: GpuSupply, host: HostContents) -> Iterator[str]:
    facts = gpu.facts
    if gpu.state is not GpuState.HEALTHY or supply.blocked:
        yield supply.blocked or str(gpu.state)
    if facts.driver != "nvidia" or facts.uuid is None:
        yield "its driver did not tell of it"
    if facts.boot_vga:
        yield "it is the host's console"
    for usage in supply.usages:
        yield f"{usage.vm or usage.foreign or usage.profile} is on it"
    if facts.mig is not None and facts.mig.instances != ():
        yield "it has GPU instances"
    layout = host.layouts.get(gpu.id)
    if layout is not None and layout.layout != AUTOMATIC:
        yield f"layout {layout.layout} is declared for it"
    if host.facts.unknown or host.facts.claims:
        functions = _functions(facts)
        yield from _unread(functions, host)
        yield from _claims(facts, functions, host)
    yield from _untold(host)


def _functions(gpu: GpuFacts) -> frozenset[str]:
    """The GPU, its VFs, and where its VFs would be."""
    there = (vf.address for vf in gpu.vfs)
    return frozenset((gpu.device, *there, *map(gpu.vf_address, range(gpu.sriov_total))))


def _unread(functions: frozenset[str], host: HostContents) -> Iterator[str]:
    for unknown in host.facts.unknown:
        words = unknown.part.split()
        if words[0] in _HOST_PARTS or not functions.isdisjoint(words):
            yield f"{unknown.part} could not be read: {unknown.why}"


def _claims(gpu: GpuFacts, functions: frozenset[str], host: HostContents) -> Iterator[str]:
    """Claims of any fleet, but for our own automatic layout of it."""
    own = formats.layout_claim(gpu.device)
    units = {own, *map(formats.pci_claim, functions)}
    for claim in host.facts.claims:
        if claim.unit == own and (claim.fleet, claim.vm) == (host.fleet, AUTOMATIC):
            continue
        if claim.unit in units or not functions.isdisjoint(_texts(claim.wanted)):
            yield f"{claim.unit} is claimed for {claim.vm}"


def _texts(value: object) -> Iterator[str]:
    """Every text in a claim's wanted state."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _each(value.values())
    elif isinstance(value, list | tuple):
        yield from _each(value)


def _each(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        yield from _texts(value)


def _untold(host: HostContents) -> Iterator[str]:
    """vGPUs that are only defined: on which GPU of the host they would be is not told."""
    for uuid in host.facts.foreign_mdev_definitions:
        yield f"mdev {uuid} is defined on the host"
    known = {mdev.uuid for mdev in host.facts.mdevs}
    for domain in host.foreign_domains:
        for device in domain.devices:
            if ":" not in device and device not in known:  # no PCI address
                yield f"domain {domain.name} names mdev {device}, which is not there"
