"""What libvirt on a host says, held against range and sense: its daemon is the host's as well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpumgr.hosts.facts.answer import LONGEST_TEXT, MOST, MOST_MIB, in_short, is_text
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.errors import OutcomeUnknown
from vgpumgr.model.host import StoragePool

# libvirt refuses more.
_MOST_VCPUS = 2**16
_MOST_DEVICES = 1024
_MOST_NAMES = 4096


def check(
    host: str,
    domains: Sequence[DomainFacts],
    pools: Sequence[StoragePool],
    networks: Sequence[str],
    version: str,
) -> None:
    """Raises OutcomeUnknown naming what makes no sense."""
    _names(host, "networks", networks)
    _names(host, "version", (version,))
    _names(host, "pools", [each.name for each in pools])
    _names(host, "domains", [each.name for each in domains])
    for pool in pools:
        where = f"pool {pool.name}"
        _texts(host, where, (pool.kind, pool.path))
        _number(host, f"{where}: capacity", pool.capacity_bytes, MOST)
        _number(host, f"{where}: available", pool.available_bytes, MOST)
    for domain in domains:
        _domain(host, domain)


def _domain(host: str, domain: DomainFacts) -> None:
    where = f"domain {domain.name}"
    _texts(host, where, (domain.uuid, *domain.devices))
    _number(host, f"{where}: vcpus", domain.vcpus, _MOST_VCPUS)
    _number(host, f"{where}: memory", domain.memory_mib, MOST_MIB)
    _number(host, f"{where}: devices", len(domain.devices), _MOST_DEVICES)
    mark = domain.ownership
    if mark is not None:
        _number(host, f"{where}: generation", mark.generation, MOST)
        _texts(host, where, (mark.fleet, mark.vm, mark.vm_id, *mark.allocations))


def _names(host: str, where: str, names: Sequence[str]) -> None:
    _texts(host, where, names)
    if len(set(names)) < len(names):
        raise _nonsense(host, where, "a name is there twice")
    if len(names) > _MOST_NAMES:
        raise _nonsense(host, where, f"there are {len(names)}, at most {_MOST_NAMES} are read")


def _texts(host: str, where: str, texts: Iterable[str]) -> None:
    for text in texts:
        if len(text) > LONGEST_TEXT or not is_text(text):
            raise _nonsense(host, where, f"a text is too long or no text: {in_short(text)}")


def _number(host: str, where: str, number: int, most: int) -> None:
    if not 0 <= number <= most:
        why = f"a whole number from 0 to {most} expected, found {in_short(number)}"
        raise _nonsense(host, where, why)


def _nonsense(host: str, where: str, why: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"what libvirt on {host} says cannot be understood: {in_short(where)}",
        why=why,
        next=f"virsh -c qemu:///system list --all   (on {host}), then vgpumgr host probe {host}",
    )
