"""A reached host: its helper and its libvirt as one ``ports.Host``, whatever the connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from vgpumgr.hosts.facts.checked_helper import CheckedHelper
from vgpumgr.hosts.facts.figure_facts import read_figures
from vgpumgr.hosts.host_probe import HostProbe
from vgpumgr.hosts.libvirt.answering_storage import AnsweringStorage
from vgpumgr.hosts.libvirt_look import LibvirtLike
from vgpumgr.model.console_ticket import ConsoleKind
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.gpu_figures import HostFigures
from vgpumgr.model.host import HostFacts, Installed
from vgpumgr.model.ports import Domains, Helper, Installation, Storage, Stream

Consoles = Callable[[str, str, ConsoleKind], Stream]
"""``ports.Host.console`` of one host."""


class ReachedHost:
    """Fulfils ``ports.Host``. ``libvirt`` is called at each use; it keeps its own connection.

    ``clock`` is monotonic, in seconds.
    """

    def __init__(
        self,
        name: str,
        helper: Helper,
        libvirt: Callable[[], LibvirtLike],
        close: Callable[[], None] = lambda: None,
        *,
        installation: Installation | None = None,
        console: Consoles | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._console = console
        self._installation = installation
        self._helper = CheckedHelper(name, helper)
        self._libvirt = libvirt
        self._probe = HostProbe(name, self._helper, libvirt, clock)
        self._close = close

    @property
    def name(self) -> str:
        """The host's name in the ledger."""
        return self._name

    @property
    def helper(self) -> Helper:
        """The helper on it."""
        return self._helper

    @property
    def installation(self) -> Installation:
        """How the helper got there."""
        if self._installation is None:
            raise AssertionError(f"there is no way to install on {self._name}")
        return self._installation

    @property
    def domains(self) -> Domains:
        """Its domains."""
        return self._libvirt().domains

    @property
    def storage(self) -> Storage:
        """Its storage, as far as it answered at the last probe."""
        storage, stalled = self._libvirt().storage, self._probe.stalled
        return AnsweringStorage(self._name, storage, stalled) if stalled else storage

    def console(self, domain: str, vm_id: str, kind: ConsoleKind = ConsoleKind.SCREEN) -> Stream:
        """A connection to a domain's VNC server or serial console."""
        if self._console is None:
            raise AssertionError(f"there is no way to reach a console of {self._name}")
        return self._console(domain, vm_id, kind)

    def probe(self) -> HostFacts:
        """One helper call, and libvirt's lists where they may have changed."""
        return self._probe.read()

    def figures(self) -> HostFigures:
        """One helper call."""
        return read_figures(self._helper.call("figures", {}), self._name)

    def close(self) -> None:
        """Drop the connections."""
        self._close()


def unreachable(name: str, error: VgpumgrError) -> ReachedHost:
    """A host of which every use raises ``error``: nobody knows how to reach it."""

    def libvirt() -> LibvirtLike:
        raise error

    def console(_domain: str, _vm_id: str, _kind: ConsoleKind) -> Stream:
        raise error

    return ReachedHost(
        name,
        _NoHelper(error),
        libvirt,
        installation=_NoInstallation(error),
        console=console,
    )


class _NoHelper:
    def __init__(self, error: VgpumgrError) -> None:
        self._error = error

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
        raise self._error


class _NoInstallation:
    def __init__(self, error: VgpumgrError) -> None:
        self._error = error

    def look(self) -> Installed:
        raise self._error

    def install(self) -> None:
        raise self._error

    def remove(self) -> None:
        raise self._error
