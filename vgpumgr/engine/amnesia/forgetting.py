"""Is a VM surely gone from every host? Only complete probes say so. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from vgpumgr.model.host import HostFacts
from vgpumgr.model.vm import Allocation, VmRecord

_TELLING = frozenset({"claims", "libvirt", "domains", "helper", "mdevs"})


def traces(
    vm: VmRecord, seen: Mapping[str, HostFacts], held: Iterable[Allocation]
) -> tuple[str, ...]:
    """What there is of a VM, or may be: its host was not read, a domain, a claim, a device."""
    return tuple(_traces(vm, seen, tuple(held)))


def unread(facts: HostFacts) -> bool:
    """Could a part of the probe not be read that a VM may be in?"""
    return bool(_TELLING & {each.part.split(" ")[0] for each in facts.unknown})


def _traces(
    vm: VmRecord, seen: Mapping[str, HostFacts], held: tuple[Allocation, ...]
) -> Iterator[str]:
    for host in {vm.host, *(each.host for each in held)}:
        facts = seen.get(host)
        if facts is None or unread(facts):
            yield f"{host} could not be read completely"
            continue
        yield from _on(vm, facts, [each for each in held if each.host == host])


def _on(vm: VmRecord, facts: HostFacts, held: Iterable[Allocation]) -> Iterator[str]:
    for domain in facts.domains:
        mark = domain.ownership
        if domain.uuid == vm.id or (mark and mark.vm_id == vm.id):
            yield f"domain {domain.name} on {facts.host}"
    for each in held:
        if any(claim.allocation == each.id for claim in facts.claims):
            yield f"the claim of {each.device} on {facts.host}"
        if any(mdev.uuid == each.device for mdev in facts.mdevs):
            yield f"mdev {each.device} on {facts.host}"
