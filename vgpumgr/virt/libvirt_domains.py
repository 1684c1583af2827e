"""Domains by intent (``model.ports.Domains``): life cycle, guest agent, CPU check, migration.

What the agent in a guest tells (qemu-guest-agent, by libvirt's virDomainGetGuestInfo) is the
guest's word: it is read with limits, and nothing is freed or given by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any

import libvirt
from lxml import etree

from vgpumgr.domainxml.ownership import NAMESPACE, PREFIX, bare_mark
from vgpumgr.domainxml.plugged_disk_xml import disk_of, disk_text
from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.model.domain import (
    DomainFacts,
    DomainState,
    GuestFacts,
    KeptBeside,
    LiveMove,
    MoveProgress,
    Ownership,
)
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.guest import GuestAnswer
from vgpumgr.virt import (
    disk_backup,
    disk_switch,
    guest_programs,
    live_migration,
)
from vgpumgr.virt.domain_lookup import facts, find, require, state, undefine
from vgpumgr.virt.libvirt_errors import broken, calling, is_absent, is_unsupported

# The guest sees what the host has: libvirt compares named models, and nothing to them.
_HOST_OWN = frozenset({"host-passthrough", "maximum"})
_CANNOT_TELL = frozenset(
    {
        libvirt.VIR_ERR_NO_SUPPORT,
        libvirt.VIR_ERR_OPERATION_UNSUPPORTED,
        libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
        libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
    }
)


def cpu_fits(connection: Any, xml: str) -> bool | None:
    """Compare the ``<cpu>`` of a domain's XML with what this host's QEMU offers its kind.

    None where libvirt cannot tell: no ``<cpu>``, a mode that takes the host's own CPU, emulation.
    Raises ValueError for text that is no domain.
    """
    domain = untrusted(xml, "domain")
    cpu, kind = domain.find("cpu"), domain.find("os/type")
    if cpu is None or kind is None or cpu.get("mode") in _HOST_OWN:
        return None
    try:
        verdict = connection.compareHypervisorCPU(
            domain.findtext("devices/emulator"),
            kind.get("arch"),
            kind.get("machine"),
            domain.get("type"),
            etree.tostring(cpu, encoding="unicode"),
            0,
        )
    except libvirt.libvirtError as error:
        if error.get_error_code() in _CANNOT_TELL:
            return None
        raise
    return bool(verdict in {libvirt.VIR_CPU_COMPARE_IDENTICAL, libvirt.VIR_CPU_COMPARE_SUPERSET})


# All of it is the guest's word: it is read with limits, and nothing is freed or given by it.


_USERS = libvirt.VIR_DOMAIN_GUEST_INFO_USERS
# libvirt 7.10 and later.
_INTERFACES = getattr(libvirt, "VIR_DOMAIN_GUEST_INFO_INTERFACES", 0)
_MOST = 16


def ask_guest_agent(domain: Any) -> GuestFacts | None:
    """Ask it; None where no agent answers. libvirt waits 5 s for one that has connected."""
    for types in (_USERS | _INTERFACES, _USERS):
        try:
            found = domain.guestInfo(types, 0)
        except libvirt.libvirtError as error:
            if is_absent(error) or broken(domain.connect()):
                raise
            if _is_mute(error):
                return None
        else:
            return GuestFacts(users=_count(found, "user.count"), addresses=_addresses(found))
    return None


def _is_mute(error: libvirt.libvirtError) -> bool:
    """Whether the error says that the guest is off, or that no agent answers in it."""
    return error.get_error_code() in {
        libvirt.VIR_ERR_OPERATION_INVALID,
        libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
    }


def _addresses(found: Mapping[str, Any]) -> tuple[str, ...]:
    """The addresses at which others may reach the guest."""
    return tuple(dict.fromkeys(_routed(found)))[:_MOST]


def _routed(found: Mapping[str, Any]) -> Iterator[str]:
    for interface in range(min(_count(found, "if.count") or 0, _MOST)):
        for number in range(min(_count(found, f"if.{interface}.addr.count") or 0, _MOST)):
            with suppress(ValueError):
                told = str(found.get(f"if.{interface}.addr.{number}.addr", ""))
                # Without its zone, which any text may be.
                address = ip_address(told.partition("%")[0])
                if not (address.is_loopback or address.is_link_local or address.is_multicast):
                    yield str(address)


def _count(found: Mapping[str, Any], name: str) -> int | None:
    number = found.get(name)
    return number if isinstance(number, int) else None


_INACTIVE = libvirt.VIR_DOMAIN_XML_INACTIVE
_ELEMENT = libvirt.VIR_DOMAIN_METADATA_ELEMENT
# With the console's password: a domain moved without it would have an open console.
_LIVE = libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE


def _filter(connection: Any, name: str) -> Any:
    """The network filter, or None when there surely is none."""
    try:
        return connection.nwfilterLookupByName(name)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_NWFILTER:
            return None
        raise


class LibvirtDomains:
    """The domains of one connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def list(self) -> tuple[DomainFacts, ...]:
        """Every domain by name. OutcomeUnknown when one's XML makes no sense."""
        with calling(self._connection, "list domains"):
            found = [facts(each) for each in self._connection.listAllDomains(0)]
        known = (each for each in found if each is not None)
        return tuple(sorted(known, key=lambda each: each.name))

    def look(self, name: str) -> DomainFacts | None:
        """One domain, or None when there surely is none."""
        with calling(self._connection, f"look at domain {name}"):
            domain = find(self._connection, name)
            return None if domain is None else facts(domain)

    def xml(self, name: str) -> str:
        """The XML it starts from next time; NotFound when there is none."""
        with calling(self._connection, f"read domain {name}"):
            return str(require(self._connection, name).XMLDesc(_INACTIVE))

    def define(self, xml: str, *, validate: bool = True) -> str:
        """Define, validated against libvirt's schema, and return the XML read back.

        ``validate`` False is for a caller that has validated already: libvirt compiles its schema
        anew at every call (7 ms).
        """
        with calling(self._connection, "define the domain", changes=True):
            domain = self._define(xml) if validate else self._connection.defineXML(xml)
            return str(domain.XMLDesc(_INACTIVE))

    def start(self, name: str) -> None:
        """Start; a running domain is no error."""
        with self._acting("start", name) as domain:
            try:
                if not domain.isActive():
                    domain.create()
            except libvirt.libvirtError:
                if not domain.isActive():
                    raise

    def shutdown(self, name: str) -> None:
        """Ask the guest to power off; a domain that is off is no error."""
        with self._acting("shut down", name) as domain:
            if domain.isActive():
                domain.shutdown()

    def reboot(self, name: str) -> None:
        """Ask the guest to reboot."""
        with self._acting("reboot", name) as domain:
            domain.reboot(0)

    def destroy(self, name: str) -> None:
        """Power off; a domain that is off is no error."""
        with self._acting("power off", name) as domain:
            try:
                if domain.isActive():
                    domain.destroy()
            except libvirt.libvirtError as error:
                # A transient domain is gone once it is off.
                if not is_absent(error) and domain.isActive():
                    raise

    def undefine(self, name: str, *, keep_tpm: bool = False) -> None:
        """Forget it, its NVRAM included; an absent domain is no error."""
        with calling(self._connection, f"undefine domain {name}", changes=True):
            domain = find(self._connection, name)
            if domain is not None:
                undefine(domain, keep_tpm=keep_tpm)

    def set_autostart(self, name: str, on: bool) -> None:
        """Start with the host, or not."""
        with self._acting("set autostart of", name) as domain:
            domain.setAutostart(1 if on else 0)

    def live_xml(self, name: str) -> str:
        """The running domain's XML for a target to take over. It may carry the console's password:
        not for logs. HostRefused when it is off.
        """
        with calling(self._connection, f"read running domain {name}"):
            domain = require(self._connection, name)
            if not domain.isActive():
                raise HostRefused(f"cannot read running domain {name}", why="it is off")
            return str(domain.XMLDesc(_LIVE))

    def set_ownership(self, name: str, mark: Ownership | None) -> None:
        """Put our mark into a domain's metadata, or take it out: defined and, if it runs, live."""
        text = None if mark is None else bare_mark(mark)
        with calling(self._connection, f"mark domain {name}", changes=True):
            domain = require(self._connection, name)
            flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG
            if domain.isActive():
                flags |= libvirt.VIR_DOMAIN_AFFECT_LIVE
            domain.setMetadata(_ELEMENT, text, PREFIX, NAMESPACE, flags)

    def kept_beside(self, name: str) -> KeptBeside:
        """Snapshots, and memory that a managed save put on disk."""
        with calling(self._connection, f"look beside domain {name}"):
            domain = require(self._connection, name)
            return KeptBeside(
                snapshots=domain.snapshotNum(), saved_state=bool(domain.hasManagedSaveImage())
            )

    def cpu_fits(self, xml: str) -> bool | None:
        """Can a guest with the CPU of this domain XML run here? None when libvirt cannot tell."""
        with calling(self._connection, "compare the guest's CPU with the host's"):
            return cpu_fits(self._connection, xml)

    def migrate(self, move: LiveMove, target: LibvirtDomains) -> None:
        """Move a running domain to another connection's host: see ``virt.migration``."""
        live_migration.migrate(self._connection, target._connection, move)

    def cancel_migration(self, name: str) -> None:
        """End a move that is under way."""
        with calling(self._connection, f"cancel the move of domain {name}", changes=True):
            domain = find(self._connection, name)
            if domain is not None:
                live_migration.cancel(domain)

    def migration_progress(self, name: str) -> MoveProgress | None:
        """How far the move of this domain is; None when none is under way."""
        with calling(self._connection, f"look at the move of domain {name}"):
            domain = find(self._connection, name)
            return None if domain is None else live_migration.progress(domain)

    def resume(self, name: str) -> None:
        """Let a paused domain go on; one that runs is no error."""
        with calling(self._connection, f"resume domain {name}", changes=True):
            domain = require(self._connection, name)
            if state(domain) is not DomainState.RUNNING:
                domain.resume()

    def guest(self, name: str) -> GuestFacts | None:
        """What the agent in the guest tells; None where none answers, or the domain is off."""
        with calling(self._connection, f"ask the guest of domain {name}"):
            return ask_guest_agent(require(self._connection, name))

    def begin_in_guest(self, name: str, run: Sequence[str]) -> int | GuestAnswer | None:
        """Have the agent in the guest begin a program: see ``guest_programs``."""
        with calling(self._connection, f"run {run[0]} in the guest of {name}", changes=True):
            return guest_programs.begin(require(self._connection, name), run)

    def end_in_guest(self, name: str, number: int, most_bytes: int) -> GuestAnswer | None:
        """How that ended; None while it runs."""
        with calling(self._connection, f"ask the guest of domain {name}"):
            return guest_programs.end(require(self._connection, name), number, most_bytes)

    def switch_disks(self, name: str, files: Mapping[str, str], *, freeze: bool) -> None:
        """Have a running domain write to other files from one moment on: see ``disk_switch``."""
        with self._acting("change over the disks of", name) as domain:
            disk_switch.switch(domain, files, freeze=freeze)

    def thaw(self, name: str) -> None:
        """Let a frozen guest write again; one that is not frozen is no error."""
        with self._acting("thaw the guest of", name) as domain:
            disk_switch.thaw(domain)

    def pull_disk(self, name: str, disk: str, below: str) -> None:
        """Begin to leave out a file below a running domain's disk: see ``disk_switch``."""
        with self._acting("pull a disk of", name) as domain:
            disk_switch.begin_pull(domain, disk, below)

    def pull_progress(self, name: str, disk: str) -> MoveProgress | None:
        """How far that is; None where it is not under way."""
        with calling(self._connection, f"look at disk {disk} of domain {name}"):
            return disk_switch.pull_progress(require(self._connection, name), disk)

    def cancel_pull(self, name: str, disk: str) -> None:
        """End it; none under way is no error."""
        with self._acting("leave a disk as it is of", name) as domain:
            disk_switch.cancel_pull(domain, disk)

    def define_filter(self, name: str, xml: str) -> None:
        """Have libvirt know a network filter; one of that name stays as it is."""
        with calling(self._connection, f"define network filter {name}", changes=True):
            if _filter(self._connection, name) is None:
                self._connection.nwfilterDefineXML(xml)

    def drop_filter(self, name: str) -> None:
        """Forget a network filter; none is no error."""
        with calling(self._connection, f"forget network filter {name}", changes=True):
            found = _filter(self._connection, name)
            if found is not None:
                found.undefine()

    def attach_disk(self, name: str, xml: str) -> None:
        """Have a running domain see one disk more, which its definition does not name."""
        with self._acting("attach a disk to", name) as domain:
            _attach_disk(domain, xml)

    def detach_disk(self, name: str, disk: str) -> None:
        """Have a running domain let go of a disk."""
        with self._acting("detach a disk from", name) as domain:
            _detach_disk(domain, disk)

    def grow_disk(self, name: str, disk: str, capacity_bytes: int) -> None:
        """Make a running domain's disk larger: see ``disk_growth``."""
        with self._acting("grow a disk of", name) as domain:
            disk_switch.grow_disk(domain, disk, capacity_bytes)

    def disk_bytes(self, name: str, disk: str) -> int:
        """How many bytes its guest sees of it."""
        with calling(self._connection, f"look at disk {disk} of domain {name}"):
            return disk_switch.disk_size(require(self._connection, name), disk)

    def begin_backup(
        self,
        name: str,
        files: Mapping[str, str],
        *,
        freeze: bool,
        checkpoint: str = "",
        since: str = "",
    ) -> None:
        """Begin to copy a running domain's disks: see ``disk_backup``."""
        with self._acting("back up the disks of", name) as domain:
            marks = disk_backup.Checkpoints(checkpoint, since)
            disk_backup.begin(domain, files, marks, freeze=freeze)

    def checkpoints(self, name: str) -> frozenset[str]:
        """Since when it remembers what is written."""
        with calling(self._connection, f"look at the checkpoints of domain {name}"):
            return disk_backup.checkpoints(require(self._connection, name))

    def forget_checkpoint(self, name: str, checkpoint: str) -> None:
        """Remember that no longer; none is no error."""
        with self._acting("forget a checkpoint of", name) as domain:
            disk_backup.forget(domain, checkpoint)

    def backup_progress(self, name: str) -> MoveProgress | None:
        """How far that is; None when it has ended well."""
        with calling(self._connection, f"look at the backup of domain {name}"):
            return disk_backup.progress(require(self._connection, name))

    def cancel_backup(self, name: str, files: Mapping[str, str]) -> None:
        """End the one into these files; none under way is no error."""
        with self._acting("end the backup of", name) as domain:
            disk_backup.cancel(domain, files)

    @contextmanager
    def _acting(self, doing: str, key: str) -> Iterator[Any]:
        """A domain by name or UUID; what libvirt refuses is told of its name."""
        with calling(self._connection, f"{doing} domain {key}", changes=True):
            domain = require(self._connection, key)
        with calling(self._connection, f"{doing} domain {domain.name()}", changes=True):
            yield domain

    def _define(self, xml: str) -> Any:
        try:
            return self._connection.defineXMLFlags(xml, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
        except libvirt.libvirtError as error:
            if not is_unsupported(error):
                raise
            return self._connection.defineXML(xml)


def _attach_disk(domain: Any, xml: str) -> None:
    """Attach it; one that is there already is no error."""
    live, (target, path) = _live_xml(domain, "attach a disk to"), disk_of(xml)
    found = disk_text(live, target)
    if found and disk_of(found) == (target, path):
        return
    domain.attachDeviceFlags(xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def _detach_disk(domain: Any, disk: str) -> None:
    """Ask the guest to let go of it. What libvirt has seen of it so far the live XML shows."""
    found = disk_text(_live_xml(domain, "detach a disk from"), disk)
    if found:
        domain.detachDeviceFlags(found, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def _live_xml(domain: Any, doing: str) -> str:
    if not domain.isActive():
        raise HostRefused(f"cannot {doing} domain {domain.name()}", why="it is off")
    return str(domain.XMLDesc(0))
