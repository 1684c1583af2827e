"""What the ledger knows of hosts and their GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.refusal import Refusal


class Closing(Protocol):
    """What is to be closed in the end."""

    def close(self) -> None:
        """Let go."""


class Fleet(Protocol):
    """What the ledger knows of hosts and their GPUs."""

    def hosts(self) -> tuple[HostRecord, ...]:
        """Every enrolled host, by name."""

    def host(self, name: str) -> HostRecord:
        """One host; NotFound suggests near names."""

    def add_host(self, record: HostRecord) -> None:
        """Enrol; Conflict when the name or address is taken."""

    def update_host(self, record: HostRecord) -> None:
        """Write address, key, labels, cordon, … ; compares ``generation`` and raises it."""

    def remove_host(self, name: str) -> None:
        """Close the host's row; Conflict while anything is allocated on it."""

    def observe(self, facts: HostFacts, units: Mapping[str, int], at: float) -> None:
        """Keep a complete probe; new GPUs get their key, known ones are recognised by evidence.

        ``units`` maps the GPU's ``device`` to its slot count (used at first sight; a later
        larger count grows it, a smaller one never drops slots in use). Evidence that conflicts
        raises Conflict and changes nothing.
        """

    def observation_failed(self, host: str, error: str) -> None:
        """Remember why a probe failed; nothing else changes."""

    def take_host(self, now: float, until: float) -> str | None:
        """The enrolled host whose look is due longest, or None; its next look is due at ``until``.

        Controllers that ask at the same time get different hosts. Unix seconds.
        """

    def host_due(self, host: str, at: float) -> None:
        """The next look at a host is due at ``at`` (Unix seconds)."""

    def hear(self, heard: Callable[[], None]) -> Closing:
        """Call ``heard``, in another thread, when another process may have made work for a
        controller. A hint: it may fail to come.
        """

    def gpus(self, host: str | None = None) -> tuple[GpuRecord, ...]:
        """GPUs, of one host or of all."""

    def layouts(self, host: str | None = None) -> tuple[LayoutRecord, ...]:
        """The layout of every GPU (of one host or all) that ever got one, by host and device."""

    def quarantine(self, gpu: str, why: str) -> None:
        """Place nothing on a GPU (our id) any more; what is on it stays."""

    def lift(self, gpu: str) -> None:
        """Use a GPU again that is quarantined, or in back-off; Conflict where it is neither."""

    def refusals(self, operation: str | None = None) -> tuple[Refusal, ...]:
        """What GPUs and hosts refused and no success has closed, the oldest first; all of an
        operation (its whole id) where it is named.
        """
