"""The closer look at domains that the ledger does not know as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath

from vgpumgr import domainxml
from vgpumgr.engine.amnesia.evidence import behind, domains_of
from vgpumgr.engine.amnesia.marked import Found, MadeDisk
from vgpumgr.engine.session import Session
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.errors import NotFound
from vgpumgr.model.freeze import Remembered
from vgpumgr.model.host import HostFacts
from vgpumgr.model.ports import Host


def read(
    session: Session, seen: Mapping[str, HostFacts], known: Remembered
) -> dict[tuple[str, str], Found]:
    """Definitions and volumes by host and domain; what could not be read is not among them."""
    wanted = {host: tuple(_unknown(facts, known)) for host, facts in seen.items()}
    answers = session.lanes.run(
        {
            host: partial(_read, session.host(host), seen[host], domains)
            for host, domains in wanted.items()
            if domains
        }
    )
    return {
        (host, name): found
        for host, each in answers.items()
        if not isinstance(each, Exception)
        for name, found in each.items()
    }


def _unknown(facts: HostFacts, known: Remembered) -> Iterator[DomainFacts]:
    for domain in domains_of(facts, known.fleet):
        mark = domain.ownership
        if mark and domain.persistent and behind(known.vms.get(mark.vm_id), mark.generation):
            yield domain


def _read(host: Host, facts: HostFacts, domains: Iterable[DomainFacts]) -> dict[str, Found]:
    found = {}
    for domain in domains:
        try:
            xml = host.domains.xml(domain.name)
            found[domain.name] = Found(xml, tuple(_disks(host, facts, xml)))
        except (NotFound, ValueError):
            continue
    return found


def _disks(host: Host, facts: HostFacts, xml: str) -> Iterator[MadeDisk]:
    """Each with the pool that it lies in, where there is one, and its volume."""
    pools = {pool.path.rstrip("/"): pool.name for pool in facts.pools if pool.active}
    for disk in domainxml.disks(xml):
        path = PurePosixPath(disk.path)
        pool = pools.get(str(path.parent), "")
        yield MadeDisk(disk, pool, path.name, host.storage.look(pool, path.name) if pool else None)
