"""Enrolment of real hosts: pin the SSH key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vgpumgr.hosts.real import RealHosts
from vgpumgr.hosts.ssh.address import LOCAL
from vgpumgr.hosts.ssh.hostkey import check_fingerprint, known_fingerprints
from vgpumgr.model.errors import HostKeyChanged
from vgpumgr.model.host import HostRecord

AcceptKey = Callable[[str, str], None]


def pin(hosts: RealHosts, record: HostRecord, fingerprint: str, accept: AcceptKey) -> HostRecord:
    """The record with the key that the host shows now; nothing but the key exchange is done.

    A given ``fingerprint`` must be among the host's keys. Without one, a key of the user's
    known_hosts is taken, and for an unknown host ``accept(name, key)`` decides: it raises to
    refuse. Raises HostKeyChanged, HostUnreachable.
    """
    if record.address == LOCAL:
        return record
    wanted = check_fingerprint(fingerprint) if fingerprint else ""
    shown = hosts.ways.fingerprints(record.address)
    known = known_fingerprints(hosts.ways.target(record.address).known_as)
    if wanted:
        _require(record, shown, frozenset({wanted}), "given")
        return replace(record, host_key=wanted)
    if known:
        _require(record, shown, known, "in known_hosts")
        return replace(record, host_key=next(key for key in shown if key in known))
    accept(record.name, shown[0])
    return replace(record, host_key=shown[0])


def _require(
    record: HostRecord, shown: tuple[str, ...], wanted: frozenset[str], source: str
) -> None:
    if wanted.isdisjoint(shown):
        raise HostKeyChanged(
            f"the SSH key of {record.name} ({record.address}) is not the one {source}",
            why=f"it presents {', '.join(shown)}; {source}: {', '.join(sorted(wanted))}",
            next="on the host's console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
        )
