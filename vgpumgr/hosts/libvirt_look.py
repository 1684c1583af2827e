"""libvirt's lists of a host, asked for only where they may be others than at an earlier look."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Protocol

from vgpumgr.hosts.facts.host_facts import LibvirtLists
from vgpumgr.model.host import StoragePool
from vgpumgr.model.ports import Domains, Storage

SETTLED_S = 2.0
"""So long its fingerprint has been there before libvirt was asked: two changes within a tick of the
host's clock look like one, and a file may be written a moment before libvirt lists the change.
"""
LONGEST_S = 600.0
"""After so long it is asked in any case: of some changes no file tells, of a pool's volumes say."""


class LibvirtLike(Protocol):
    """What a host needs of libvirt: ``virt.Libvirt``, one under deadlines, or a simulated one."""

    @property
    def domains(self) -> Domains:
        """The host's domains."""

    @property
    def storage(self) -> Storage:
        """The host's storage."""

    @property
    def changes(self) -> int:
        """How often a change over this connection has begun or ended."""

    def networks(self) -> tuple[str, ...]:
        """The names of libvirt's networks."""

    def filters(self) -> tuple[str, ...]:
        """The names of libvirt's network filters."""

    def versions(self) -> tuple[str, str]:
        """Versions of libvirt and of its hypervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibvirtLook:
    """Lists, and what vouches for them. Times are seconds of a monotonic clock.

    ``fingerprint`` (empty: none) is there since ``since``; libvirt was asked at the time ``at``,
    after ``changes`` of our own.
    """

    lists: LibvirtLists
    fingerprint: str
    since: float
    at: float
    changes: int

    def holds(self, fingerprint: str, changes: int, now: float) -> bool:
        """Would libvirt list the same now?"""
        return (
            fingerprint != ""
            and fingerprint == self.fingerprint
            and changes == self.changes
            and self.at - self.since >= SETTLED_S
            and now - self.at < LONGEST_S
        )


@dataclass(frozen=True, slots=True)
class PoolsToAsk:
    """The names of a host's storage pools, and of the ``stalled`` ones: they are not asked, and
    the others by name, as libvirt's list would wait for them, too.
    """

    names: Collection[str] = ()
    stalled: Collection[str] = ()

    def ask(self, storage: Storage, before: Collection[StoragePool]) -> tuple[StoragePool, ...]:
        """All of them; a stalled one as it was before, and not active."""
        if not self.stalled:
            return storage.pools()
        found = storage.pools([name for name in self.names if name not in self.stalled])
        gone = (replace(each, active=False) for each in before if each.name in self.stalled)
        return tuple(sorted((*found, *gone), key=lambda pool: pool.name))


class LibvirtLooks:
    """Looks at one host's libvirt; ``clock`` is monotonic."""

    def __init__(
        self, host: str, libvirt: Callable[[], LibvirtLike], clock: Callable[[], float]
    ) -> None:
        self._host = host
        self._libvirt = libvirt
        self._clock = clock

    def look(
        self,
        fingerprint: str,
        before: LibvirtLook | None,
        pools: PoolsToAsk | None = None,
        *,
        doubted: bool = False,
    ) -> LibvirtLook:
        """The look before where it holds and nothing else speaks against it, or a new one.

        Equal lists stay the same object only under the same fingerprint: with another one, what
        libvirt does not list (a definition, a volume) may have changed. Raises what libvirt raises,
        and OutcomeUnknown for lists that make no sense.
        """
        libvirt, now = self._libvirt(), self._clock()
        changes = libvirt.changes
        if before is not None and not doubted and before.holds(fingerprint, changes, now):
            return before
        known = before.lists.pools if before is not None else ()
        lists = self._lists(libvirt, pools or PoolsToAsk(), known)
        last = before if before is not None and before.fingerprint == fingerprint else None
        same = last is not None and fingerprint != "" and last.lists == lists
        return LibvirtLook(
            lists=last.lists if last is not None and same else lists,
            fingerprint=fingerprint,
            since=last.since if last is not None else now,
            at=now,
            changes=changes,
        )

    def _lists(
        self, libvirt: LibvirtLike, pools: PoolsToAsk, known: Collection[StoragePool]
    ) -> LibvirtLists:
        lists = LibvirtLists(
            domains=libvirt.domains.list(),
            pools=pools.ask(libvirt.storage, known),
            networks=libvirt.networks(),
            filters=libvirt.filters(),
            version=libvirt.versions()[0],
        )
        lists.check(self._host)
        return lists
