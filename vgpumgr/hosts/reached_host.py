"""A reached host: its helper and its libvirt as one ``ports.Host``, whatever the connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from vgpumgr.hosts.facts.checked_helper import CheckedHelper
from vgpumgr.hosts.facts.host_facts import assemble
from vgpumgr.model.errors import OutcomeUnknown, VgpumgrError
from vgpumgr.model.host import HostFacts, Installed, UnknownPart
from vgpumgr.model.ports import Domains, Helper, Installation, Storage, Stream

Consoles = Callable[[str, str], Stream]
"""``ports.Host.console`` of one host."""


class LibvirtLike(Protocol):
    """What a host needs of libvirt: ``virt.Libvirt``, one under deadlines, or a simulated one."""

    @property
    def domains(self) -> Domains:
        """The host's domains."""

    @property
    def storage(self) -> Storage:
        """The host's storage."""

    def networks(self) -> tuple[str, ...]:
        """The names of libvirt's networks."""

    def versions(self) -> tuple[str, str]:
        """Versions of libvirt and of its hypervisor."""


class ReachedHost:
    """Fulfils ``ports.Host``. ``libvirt`` is called at each use; it keeps its own connection."""

    def __init__(
        self,
        name: str,
        helper: Helper,
        libvirt: Callable[[], LibvirtLike],
        close: Callable[[], None] = lambda: None,
        *,
        installation: Installation | None = None,
        console: Consoles | None = None,
    ) -> None:
        self._name = name
        self._console = console
        self._installation = installation
        self._helper = CheckedHelper(name, helper)
        self._libvirt = libvirt
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
        """Its storage."""
        return self._libvirt().storage

    def console(self, domain: str, vm_id: str) -> Stream:
        """A connection to a domain's VNC server."""
        if self._console is None:
            raise AssertionError(f"there is no way to reach a console of {self._name}")
        return self._console(domain, vm_id)

    def probe(self) -> HostFacts:
        """One helper call and libvirt's lists; without libvirt that part is *unknown*."""
        answer = self._with_kvm(self._helper.call("probe", {}))
        try:
            return self._with_libvirt(answer)
        except VgpumgrError as error:
            facts = assemble(self._name, answer)
            missing = UnknownPart(part="libvirt", why=_in_words(error))
            return replace(facts, unknown=(*facts.unknown, missing))

    def _with_kvm(self, answer: dict[str, object]) -> dict[str, object]:
        """Where KVM was never tried with this kernel and QEMU, try it; the host remembers."""
        unknown = answer.get("unknown")
        parts = unknown if isinstance(unknown, list) else []
        others = [each for each in parts if not _names(each, "kvm")]
        if len(others) == len(parts):
            return answer
        try:
            verdict = self._helper.call("kvm_probe", {})
        except VgpumgrError:
            return answer  # it stays unknown, as the answer says
        return {**answer, "kvm": verdict.get("kvm"), "unknown": others}

    def _with_libvirt(self, answer: dict[str, object]) -> HostFacts:
        libvirt = self._libvirt()
        return assemble(
            self._name,
            answer,
            libvirt.domains.list(),
            libvirt.storage.pools(),
            libvirt.networks(),
            libvirt.versions()[0],
        )

    def close(self) -> None:
        """Drop the connections."""
        self._close()


def _in_words(error: VgpumgrError) -> str:
    """What libvirt refused says why alone; an answer without sense says where, too."""
    if isinstance(error, OutcomeUnknown):
        return f"{error.message}: {error.why}" if error.why else error.message
    return error.why or error.message


def _names(unknown: object, part: str) -> bool:
    return isinstance(unknown, dict) and unknown.get("part") == part


def unreachable(name: str, error: VgpumgrError) -> ReachedHost:
    """A host of which every use raises ``error``: nobody knows how to reach it."""

    def libvirt() -> LibvirtLike:
        raise error

    def console(_domain: str, _vm_id: str) -> Stream:
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
