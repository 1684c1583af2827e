"""What other people do on a host: with virsh, with echo, with the power plug."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass, field

from lxml import etree
from lxml.builder import E

from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.sim.injection import inject
from vgpumgr.sim.simulated_fleet import SimulatedFleet

Key = tuple[str, str]


@dataclass
class Foreign:
    """What they made, and as it has to stay: by host and name (or UUID)."""

    domains: dict[Key, tuple[str, DomainState]] = field(default_factory=dict)
    mdevs: dict[Key, tuple[str, str]] = field(default_factory=dict)


class Hands:
    """They act on the host itself: no door, no ledger."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self._fleet = fleet
        self.foreign = Foreign()

    @property
    def made(self) -> bool:
        """Is anything of theirs there?"""
        return bool(self.foreign.domains or self.foreign.mdevs)

    def make_domain(self, host: str, name: str, number: int, *, run: bool) -> bool:
        """Define a small domain, where the name is free."""
        domains = self._fleet.host(host).domains
        if domains.look(name) is not None:
            return False
        domains.define(_domain(name, number))
        if run:
            with suppress(VgpumgrError):
                domains.start(name)
        self._note_domain(host, name)
        return True

    def make_mdev(self, host: str, number: int, choice: int) -> bool:
        """``echo UUID > create`` of some type, where the kernel lets one."""
        kernel = self._fleet.host(host).kernel
        parents = sorted(kernel.tree.names("/sys/class/mdev_bus"))
        if not parents:
            return False
        parent = parents[choice % len(parents)]
        types = f"/sys/class/mdev_bus/{parent}/mdev_supported_types"
        kind = sorted(kernel.tree.names(types))[-1 - choice % 3]
        made = str(uuid.UUID(int=number))
        with suppress(OSError):
            kernel.tree.write(f"{types}/{kind}/create", made)
            self.foreign.mdevs[(host, made)] = (parent, kind)
        return True

    def power_cut(self, host: str) -> None:
        """Off and on: what is not durable is gone."""
        inject(self._fleet.host(host), ["reboot"])
        self.powered_off(host)

    def powered_off(self, host: str) -> None:
        """Learn what a power cut took of theirs."""
        for key in [key for key in self.foreign.mdevs if key[0] == host]:
            del self.foreign.mdevs[key]
        for key in [key for key in self.foreign.domains if key[0] == host]:
            self._note_domain(*key)

    def pull_plug(self, host: str, name: str) -> bool:
        """``virsh destroy`` of a domain of ours."""
        domains = self._fleet.host(host).domains
        found = domains.look(name)
        if found is None or found.state is not DomainState.RUNNING or found.ownership is None:
            return False
        domains.destroy(name)
        return True

    def forget(self, host: str, name: str) -> bool:
        """``virsh undefine`` of a domain of ours that is off."""
        domains = self._fleet.host(host).domains
        found = domains.look(name)
        if found is None or found.state is not DomainState.SHUTOFF or found.ownership is None:
            return False
        domains.undefine(name)
        return True

    def leave(self) -> None:
        """They take away what they made."""
        for host, name in self.foreign.domains:
            domains = self._fleet.host(host).domains
            domains.destroy(name)
            domains.undefine(name)
        for host, made in self.foreign.mdevs:
            self._fleet.host(host).kernel.mdevs.remove(made)
        self.foreign = Foreign()

    def _note_domain(self, host: str, name: str) -> None:
        domains = self._fleet.host(host).domains
        found = domains.look(name)
        assert found is not None, f"{name} on {host} is gone, and was not ours"
        self.foreign.domains[(host, name)] = (domains.xml(name), found.state)


def _domain(name: str, number: int) -> str:
    tree = E.domain(
        E.name(name),
        E.uuid(str(uuid.UUID(int=number))),
        E.memory("262144", unit="KiB"),
        E.vcpu("1"),
        E.os(E.type("hvm", arch="x86_64", machine="q35")),
        E.features(E.acpi()),
        type="kvm",
    )
    return etree.tostring(tree, encoding="unicode")
