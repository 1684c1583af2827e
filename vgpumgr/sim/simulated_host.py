"""One simulated host: its kernel, helper, domains and storage behind one lock."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from vgpumgr import virt
from vgpumgr.helper import claims, digests, fleets
from vgpumgr.helper.allowed_programs import QEMU_IMG, RBD
from vgpumgr.helper.dispatch import VERBS, answered, handle
from vgpumgr.helper.joined_connection import joined
from vgpumgr.helper.verbs import probe
from vgpumgr.helper.verbs.console import Connection
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.host import Installed
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.sim.host_faults import Faults
from vgpumgr.sim.libvirt import driver_node, network_filters
from vgpumgr.sim.libvirt.ceph_tool import CephTool
from vgpumgr.sim.libvirt.live_moves import SimMoves
from vgpumgr.sim.libvirt.qemu_img import QemuImg
from vgpumgr.sim.libvirt.sim_domains import SimDomains
from vgpumgr.sim.libvirt.sim_storage import SimStorage
from vgpumgr.sim.libvirt.state_files import LibvirtFiles
from vgpumgr.sim.libvirt.thin_lvm import ThinLvm
from vgpumgr.sim.libvirt.vnc_consoles import VncConsoles
from vgpumgr.sim.libvirt.volume_files import Shelf
from vgpumgr.sim.linux.machine_setup import RESTORE
from vgpumgr.sim.machine.durable_texts import Durable
from vgpumgr.sim.machine.kernel import Kernel
from vgpumgr.sim.sim_system import SimSystem


class KeptProbe:
    """Once a part of the host is handed out, nothing is kept: it may change at any time."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] | None = None
        self._outside: object = None
        self._handed_out = False

    def changed(self) -> None:
        """Forget it."""
        self._answer = None

    def hand_out(self) -> None:
        """Keep none from now on."""
        self._answer, self._handed_out = None, True

    def whole(
        self, read: Callable[[], dict[str, Any]], *, quiet: bool, outside: object = None
    ) -> dict[str, Any]:
        """What ``read`` gives. ``quiet``: it stays so until a call, or while ``outside`` is equal:
        what other hosts change of it.
        """
        if self._answer is not None and self._outside == outside:
            return self._answer
        answer = read()
        if quiet and not self._handed_out:
            self._answer, self._outside = answer, outside
        return answer


_PROBE = "probe"
# What changes nothing that a probe shows. ``kvm_probe`` writes its verdict down.
_LOOKS = frozenset(name for name, verb in VERBS.items() if not verb.changes) - {"kvm_probe"}
_LIBVIRT_LOOKS = frozenset(
    {"list", "look", "xml", "pools", "networks", "filters", "versions", "volumes"}
)
_LIBVIRT_LOOKS |= {"guest", "run_in_guest"}
_LIBVIRT_LOOKS |= {"progress", "pull_progress", "kept_beside", "live_xml", "cpu_fits"}
RESTORE_UNIT = f"/etc/systemd/system/{RESTORE}"


@dataclass(frozen=True, slots=True)
class HostInside:
    """Parts of a simulated host in the hand of who holds its lock."""

    kernel: Kernel
    domains: SimDomains
    moves: SimMoves


class SimulatedHost:
    """Does one call at a time. Use it only while holding ``lock``; what comes from outside the
    host (faults, power, status) takes it by itself.
    """

    def __init__(self, host: SimHost, durable: Durable, shared: Shelf) -> None:
        self.host = host
        self.faults = Faults()
        self.lock = threading.RLock()
        self._durable = durable
        self._shared = shared
        self._connection: virt.Libvirt | None = None
        self._boot()
        # A fleet is up when its services are; only a reboot shows them starting.
        if self._kernel.fabric is not None:
            self._kernel.fabric.settle()

    @property
    def kernel(self) -> Kernel:
        """Its kernel."""
        self._kept.hand_out()
        return self._kernel

    @property
    def system(self) -> SimSystem:
        """The helper's seam over it."""
        self._kept.hand_out()
        return self._system

    @property
    def domains(self) -> SimDomains:
        """Its domains."""
        self._kept.hand_out()
        return self._domains

    @property
    def moves(self) -> SimMoves:
        """The moves of its domains."""
        self._kept.hand_out()
        return self._moves

    @property
    def storage(self) -> SimStorage:
        """Its storage."""
        self._kept.hand_out()
        return self._storage

    def opened(self) -> HostInside:
        """What is in it, for one look or change while ``lock`` is held."""
        self._kept.changed()
        return HostInside(self._kernel, self._domains, self._moves)

    def parts(self) -> Mapping[str, SimDomains | SimMoves | SimStorage]:
        """What of libvirt can be called, and be told to refuse, by name."""
        return {"domains": self._domains, "moves": self._moves, "storage": self._storage}

    def networks(self) -> tuple[str, ...]:
        """libvirt's networks."""
        return self.host.networks

    def filters(self) -> tuple[str, ...]:
        """libvirt's network filters."""
        return network_filters.names(self.kernel)

    def versions(self) -> tuple[str, str]:
        """The libvirt and QEMU it declares."""
        return self.host.versions.libvirt, self.host.versions.qemu

    def helper(self, request: str) -> str:
        """Run the helper: one JSON text in, one out."""
        asked = json.loads(request)
        self._system.refuse_write = self.faults.refusal_of(asked["verb"])
        try:
            return json.dumps(self._answer(asked))
        finally:
            self._system.refuse_write = 0

    def _answer(self, asked: dict[str, Any]) -> Any:
        """The helper's, with its lies in place."""
        verb, lies = asked["verb"], self.faults.lies
        if verb == _PROBE:
            return self._lying_probe() if lies.of(verb) else self._probe(asked)
        if verb not in _LOOKS:
            self._kept.changed()
        return lies.told(verb, handle(asked, self._system))

    def _probe(self, asked: dict[str, Any]) -> Any:
        """As the helper's, whose one argument leaves parts out of what is kept."""
        if asked.get("args", {}).keys() - {"known"} or asked.keys() - {"verb", "args"}:
            return handle(asked, self._system)
        if self._kernel.nvidia:
            self.faults.wait_for_driver()
        told = self._kept.whole(
            lambda: probe.whole(self._system),
            quiet=self._kernel.is_quiet(),
            outside=[self._storage.written(pool) for pool in self.host.seen_elsewhere],
        )
        return answered(lambda: probe.left_out(told, digests.known(asked["args"], "known")))

    def _lying_probe(self) -> Any:
        """All of it each time, with digests of what is told."""
        answer = handle({"verb": _PROBE}, self._system)
        lied = self.faults.lies.told(_PROBE, answer)
        with suppress(AttributeError, KeyError, TypeError):
            if lied["result"]["digests"] == answer["result"]["digests"]:
                lied["result"]["digests"] |= probe.part_digests(lied["result"])
        return lied

    def joined(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], Connection | None]:
        """The helper's answer to a request that joins, and the connection behind it."""
        return joined(request, self._system)

    def call(self, target: str, method: str, arguments: Mapping[str, Any]) -> Any:
        """One call of ``domains``, ``moves``, ``storage`` or ``node`` (the connection itself)."""
        number = self.faults.refusal_of(f"{target}.{method}")
        if number:
            raise HostRefused(
                f"{target} {method} was refused on {self.host.name}",
                why=os.strerror(number),
                errno_name=errno.errorcode[number],
            )
        if method not in _LIBVIRT_LOOKS:
            self._kept.changed()
        part = {**self.parts(), "node": self}[target]
        return self.faults.lies.told(f"{target}.{method}", getattr(part, method)(**arguments))

    def guests_without_fabric(self) -> tuple[str, ...]:
        """Running domains whose NVSwitch GPUs are no active partition: their cuInit fails (802)."""
        with self.lock:
            fabric = self._kernel.fabric
            if fabric is None:
                return ()
            running = (each for each in self._domains.list() if each.state is DomainState.RUNNING)
            return tuple(each.name for each in running if not fabric.is_whole(each.devices))

    def reboot(self) -> None:
        """Power off and on: what is not durable is gone."""
        self.close()
        self._boot()
        self.start_units()

    def power_off(self) -> None:
        """Cut the power: what is not durable is gone, and nothing answers."""
        self.faults.powered = False
        self.close()
        self._boot()

    def power_on(self) -> None:
        """Switch it on; one that is on goes on as it is."""
        if not self.faults.powered:
            self.faults.powered = True
            self.reboot()

    def start_units(self) -> None:
        """What systemd does once the kernel is up: claims are restored where a unit says so, then
        libvirt starts what is marked.
        """
        if self._system.exists(RESTORE_UNIT):
            answer = handle({"verb": "restore"}, self._system)
            if not answer["ok"] or answer["result"]["failed"]:
                self._kernel.setup.fail(RESTORE)
        self._domains.boot()
        self._kept.changed()

    def look(self) -> Installed:
        """The helper is always there: the unit that restores at boot stands for it."""
        there = self._system.exists(RESTORE_UNIT)
        return Installed(
            helper=there,
            current=there,
            fleets=fleets.enrolled(self._system),
            state=self._system.exists(claims.FOLDER),
        )

    def install(self) -> None:
        """Have claims restored at boot, as the roles set a host up."""
        self._system.store(RESTORE_UNIT, "")

    def uninstall(self) -> None:
        """Boot as a host without the unit."""
        if self._system.exists(RESTORE_UNIT):
            self._system.remove(RESTORE_UNIT)

    def close(self) -> None:
        """Drop the libvirt connection, and the guests' consoles."""
        for domain in self._domains.all():
            domain.hang_up()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _boot(self) -> None:
        self._kept = KeptProbe()
        self._kernel = Kernel(self.host, self._durable)
        self._storage = SimStorage(self.host, self._durable, self._shared, self._libvirt)
        self._domains = SimDomains(self._kernel, self._durable, self._storage, self._libvirt)
        self._moves = SimMoves(self._kernel, self._domains, self._storage)
        consoles = VncConsoles(self._domains)
        storage = self._storage
        files = LibvirtFiles(self.host, self._domains, storage)
        files.show(self._kernel.tree)
        self._system = SimSystem(
            self._kernel,
            storage.head,
            storage.pieces,
            {
                QEMU_IMG: QemuImg(storage, self._domains).run,
                **ThinLvm(storage).programs,
                RBD: CephTool(storage).run,
            },
            consoles,
            files.stamp,
            self.faults,
        )
        if self.host.kvm:
            # Done on a real host when the helper is installed.
            handle({"verb": "kvm_probe"}, self._system)

    def _libvirt(self) -> virt.Libvirt:
        """The test driver, taught all it forgot at the last power cut."""
        if self._connection is None:
            self._connection = driver_node.connect(self.host)
            self._storage.replay(self._connection)
            self._domains.replay(self._connection)
        return self._connection
