"""The domains of one simulated host: libvirt's test driver, refusing what QEMU and VFIO would."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from vgpumgr import domainxml
from vgpumgr.domainxml import plugged_disk_xml
from vgpumgr.model.domain import DomainFacts, GuestFacts, KeptBeside, MoveProgress
from vgpumgr.model.errors import Conflict, HostRefused, InUse, VgpumgrError
from vgpumgr.model.guest import GuestAnswer
from vgpumgr.sim.libvirt import domain_needs, network_filters, tpm_files
from vgpumgr.sim.libvirt.admission import DiskLocks
from vgpumgr.sim.libvirt.domain_needs import Disk, Needs, read_needs, validated, with_files
from vgpumgr.sim.libvirt.known_domains import DOMAIN, Domain, KnownDomains


class SimDomains(KnownDomains):
    """Fulfils ``ports.Domains``."""

    def boot(self) -> None:
        """What libvirtd does when the host comes up: start those marked so, as far as it goes."""
        for name, domain in list(self._domains.items()):
            if domain.autostart:
                with suppress(VgpumgrError):
                    self.start(name)

    def list(self) -> tuple[DomainFacts, ...]:
        """Every domain, by name."""
        return tuple(self._domains[name].facts for name in sorted(self._domains))

    def look(self, name: str) -> DomainFacts | None:
        """One domain, or None."""
        domain = self._domains.get(name)
        return domain.facts if domain else None

    def xml(self, name: str) -> str:
        """The XML as it was defined; NotFound when there is none."""
        return self.require(name).xml

    def define(self, xml: str) -> str:
        """Define, validated by libvirt's schema and parser, and return the XML as kept."""
        needs = validated(self._kernel.host, xml)
        self._refuse_known(needs.facts)
        read_back = self._libvirt().domains.define(self.told(xml), validate=False)
        if not needs.facts.uuid:
            xml, needs = read_back, read_needs(read_back)
        name = needs.facts.name
        made = Domain(xml, needs, script=self.new_guests)
        domain = self._domains.setdefault(name, made)
        domain.xml, domain.needs, domain.persistent = xml, needs, True
        self.keep(domain)
        return xml

    def _refuse_known(self, told: DomainFacts) -> None:
        """A UUID has one name, and a name one UUID."""
        for known in (each.facts for each in self._domains.values() if told.uuid):
            if (known.uuid == told.uuid) != (known.name == told.name):
                why = f"domain '{known.name}' is already defined with uuid {known.uuid}"
                raise Conflict("cannot define the domain", why=f"operation failed: {why}")

    def start(self, name: str) -> None:
        """Start with what its XML asks for, or refuse as QEMU would; running is no error."""
        name = self.named(name)
        domain = self.require(name)
        if not domain.running:
            self.power_on(domain, domain.xml, domain.needs)

    def shutdown(self, name: str) -> None:
        """Ask the guest to power off: simulated guests do so at once."""
        name = self.named(name)
        self.unlocked(name, "shut down")
        self._libvirt().domains.shutdown(name)
        self.is_off(name)

    def reboot(self, name: str) -> None:
        """Ask the guest to reboot; refused while it is off."""
        name = self.named(name)
        if not self.unlocked(name, "reboot").running:
            why = "Requested operation is not valid: domain is not running"
            raise HostRefused(f"cannot reboot domain {name}", why=why)

    def destroy(self, name: str) -> None:
        """Power off; a domain that is off is no error."""
        name = self.named(name)
        self.require(name)
        self._libvirt().domains.destroy(name)
        self.is_off(name)

    def undefine(self, name: str, keep_tpm: bool = False) -> None:
        """Forget it; an absent one is no error. A running one lives on until it is off."""
        name = self.named(name)
        domain = self._domains.get(name)
        if domain is None:
            return
        self._libvirt().domains.undefine(name)
        if not keep_tpm:
            tpm_files.forget(self._kernel, domain.needs.facts.uuid)
        self._durable.pop(DOMAIN + name, None)
        if domain.running:
            domain.persistent = domain.autostart = False
        else:
            del self._domains[name]

    def set_autostart(self, name: str, on: bool) -> None:
        """Start with the host, or not."""
        name = self.named(name)
        domain = self.require(name)
        domain.autostart = on
        self.keep(domain)

    def set_metadata(self, name: str, text: str) -> None:
        """Our element of its metadata, or none: as defined and, while it runs, there as well."""
        domain = self.require(name)

        def changed(xml: str) -> str:
            return domainxml.with_mark(xml, text) if text else domainxml.without_mark(xml)

        if domain.persistent:
            domain.xml = changed(domain.xml)
            domain.needs = read_needs(domain.xml)
            self.keep(domain)
        if domain.running is not None:
            domain.live = changed(domain.live)
            domain.running = read_needs(domain.live)

    def live_xml(self, name: str) -> str:
        """What it was started with; HostRefused when it is off."""
        live = self.require(name).live
        if not live:
            why = "Requested operation is not valid: domain is not running"
            raise HostRefused(f"cannot read running domain {name}", why=why)
        return live

    def kept_beside(self, name: str) -> KeptBeside:
        """Nothing: nobody can take a snapshot of a simulated domain, or save it."""
        self.require(name)
        return KeptBeside()

    def cpu_fits(self, xml: str) -> bool | None:
        """Can a guest with that CPU run here? None when libvirt cannot tell."""
        return domain_needs.cpu_fits(self._kernel.host, read_needs(xml))

    def resume(self, name: str) -> None:
        """Let a paused domain go on; HostRefused when it is off, or part of a move."""
        domain = self.unlocked(name, "resume")
        if not domain.running:
            why = "Requested operation is not valid: domain is not running"
            raise HostRefused(f"cannot resume domain {name}", why=why)
        domain.paused = False

    def guest(self, name: str) -> GuestFacts | None:
        """What the agent in the guest tells; None where none is heard."""
        domain = self.require(self.named(name))
        return domain.guest if domain.agent_hears else None

    def run_in_guest(self, name: str, run: Sequence[str]) -> GuestAnswer | None:
        """How a program ends that the agent in the guest runs; None where none is heard."""
        domain = self.require(self.named(name))
        running = domain.running
        if running is None or not domain.agent_hears or domain.guest is None:
            return None
        up_s = self._kernel.clock.now() - domain.on_since
        return domain.script.answer(run, up_s, has_gpu=bool(running.facts.devices))

    def switch_disks(self, name: str, files: dict[str, str], freeze: bool) -> None:
        """Go on in other files, all disks at one moment, or refuse as libvirt and QEMU would."""
        name = self.named(name)
        domain, doing = self.unlocked(name, "change over"), f"cannot change over {name}'s disks"
        if domain.running is None:
            raise HostRefused(doing, why="it is off")
        if freeze and not domain.agent_hears:
            raise HostRefused(doing, why="Guest agent is not responding: it is not connected")
        if why := self._not_opened(domain.running, files, name):
            raise HostRefused(doing, why=why)
        was = {disk.target: disk.path for disk in domain.running.disks}
        domain.live = with_files(domain.live, files)
        domain.running = read_needs(domain.live)
        new = {was[target]: path for target, path in files.items()}
        domain.checkpoints = {
            name: tuple(new.get(path, path) for path in paths)
            for name, paths in domain.checkpoints.items()
        }
        if domain.persistent:
            same = {disk.target for disk in domain.needs.disks if was.get(disk.target) == disk.path}
            kept = {target: path for target, path in files.items() if target in same}
            domain.xml = with_files(domain.xml, kept)
            domain.needs = read_needs(domain.xml)
            self.keep(domain)

    def _not_opened(self, running: Needs, files: dict[str, str], name: str) -> str:
        there = {disk.target for disk in running.disks}
        locks = DiskLocks(self.running(but=name), self._storage.chain)
        for target, path in files.items():
            if target not in there:
                return f"the domain has no disk {target}"
            if not self._storage.exists(path):
                return f"missing existing file for disk {target}: {path}"
            own = any(path in self._storage.chain(disk.path) for disk in running.disks)
            lock = locks.refused(Disk(path=path, exclusive=True))
            if own or lock:
                return lock or f"Failed to get \"write\" lock on '{path}'"
        return ""

    def pull_disk(self, name: str, disk: str, below: str) -> None:
        """Leave out what is between a disk's file and another: done at once, or refused."""
        name = self.named(name)
        domain, doing = self.unlocked(name, "pull"), f"cannot pull disk {disk} of domain {name}"
        if domain.running is None:
            raise HostRefused(doing, why="it is off")
        path = next((each.path for each in domain.running.disks if each.target == disk), "")
        chain = tuple(self._storage.chain(path)) if path else ()
        if not path or (below and below not in chain[1:]):
            why = f"invalid argument: could not find image '{below}' in chain for '{path or disk}'"
            raise HostRefused(doing, why=why)
        self._storage.lay_over(path, below)

    def define_filter(self, name: str, xml: str) -> None:
        """Know a network filter; refused by libvirt's schema, and for what it refers to."""
        network_filters.define(self._kernel, name, xml)

    def drop_filter(self, name: str) -> None:
        """Forget one; libvirt refuses that while a running domain uses it."""
        if any(name in each.filters for each in self.running()):
            doing = f"cannot forget network filter {name}"
            raise InUse(doing, why="Requested operation is not valid: nwfilter is in use")
        network_filters.drop(self._kernel, name)

    def attach_disk(self, name: str, xml: str) -> None:
        """Have a running domain see one disk more, or refuse as QEMU would."""
        name = self.named(name)
        domain, doing = self.unlocked(name, "attach a disk to"), f"cannot attach a disk to {name}"
        if domain.running is None:
            raise HostRefused(doing, why="it is off")
        target, path = plugged_disk_xml.disk_of(xml)
        there = {disk.target: disk.path for disk in domain.running.disks}
        if there.get(target) == path:
            return
        locks = DiskLocks(self.running(but=name), self._storage.chain)
        if target in there:
            raise HostRefused(doing, why=f"operation failed: target {target} already exists")
        if not self._storage.exists(path):
            raise HostRefused(doing, why=f"Could not open '{path}': No such file or directory")
        if lock := locks.refused(Disk(path=path, exclusive=True)):
            raise HostRefused(doing, why=lock)
        domain.live = plugged_disk_xml.with_disk(domain.live, xml)
        domain.running = read_needs(domain.live)

    def detach_disk(self, name: str, disk: str) -> None:
        """Have its guest let go of a disk: simulated guests do so at once."""
        name = self.named(name)
        domain = self.unlocked(name, "detach a disk from")
        if domain.running is None:
            raise HostRefused(f"cannot detach a disk from {name}", why="it is off")
        domain.live = plugged_disk_xml.without_disk(domain.live, disk)
        domain.running = read_needs(domain.live)

    def grow_disk(self, name: str, disk: str, capacity_bytes: int) -> None:
        """Make a running domain's disk larger, or refuse as QEMU would."""
        name = self.named(name)
        self.unlocked(name, "grow a disk of")
        doing = f"cannot grow disk {disk} of domain {name}"
        path = self._disk_path(name, disk, doing)
        if why := self._storage.grow_file(path, capacity_bytes):
            raise HostRefused(doing, why=why)

    def disk_bytes(self, name: str, disk: str) -> int:
        """How many bytes its guest sees of it."""
        name = self.named(name)
        path = self._disk_path(name, disk, f"cannot look at disk {disk} of domain {name}")
        return self._storage.capacity_of(path)

    def _disk_path(self, name: str, disk: str, doing: str) -> str:
        domain = self.require(name)
        if domain.running is None:
            raise HostRefused(doing, why="it is off")
        found = next((each.path for each in domain.running.disks if each.target == disk), "")
        if not found:
            raise HostRefused(doing, why=f"invalid argument: invalid path '{disk}' not assigned")
        return found

    def pull_progress(self, name: str, disk: str) -> MoveProgress | None:
        """Nothing is under way for longer than a call takes."""
        self.require(self.named(name))
        return None

    def cancel_pull(self, name: str, disk: str) -> None:
        """There is nothing to end."""
        self.require(self.named(name))

    def begin_backup(
        self, name: str, files: dict[str, str], freeze: bool, checkpoint: str, since: str
    ) -> None:
        """Copy its disks, all at one moment: done at once, or refused as libvirt would."""
        name = self.named(name)
        domain, doing = self.unlocked(name, "back up"), f"cannot back up {name}'s disks"
        if domain.running is None:
            raise HostRefused(doing, why="it is off")
        if freeze and not domain.agent_hears:
            raise HostRefused(doing, why="Guest agent is not responding: it is not connected")
        sources = {disk.target: disk.path for disk in domain.running.disks}
        if since and domain.checkpoints.get(since) != tuple(sources.values()):
            raise HostRefused(doing, why=f"missing or broken bitmap of checkpoint '{since}'")
        for target, path in files.items():
            if target not in sources:
                raise HostRefused(doing, why=f"the domain has no disk {target}")
            if not self._storage.exists(path):
                raise HostRefused(doing, why=f"missing existing file for disk {target}: {path}")
        for target, path in files.items():
            self._storage.mirror(path, self._storage.content(sources[target]))
        domain.backed_up = True
        if checkpoint:
            domain.checkpoints[checkpoint] = tuple(sources.values())

    def checkpoints(self, name: str) -> frozenset[str]:
        """Since when it remembers what is written to the disks it had then."""
        return frozenset(self.require(self.named(name)).checkpoints)

    def forget_checkpoint(self, name: str, checkpoint: str) -> None:
        """Remember that no longer; one that is off keeps what it has."""
        domain = self.require(self.named(name))
        if domain.running is not None:
            domain.checkpoints.pop(checkpoint, None)

    def backup_progress(self, name: str) -> MoveProgress | None:
        """None is under way for longer than a call takes; one must have been begun."""
        name = self.named(name)
        domain = self.require(name)
        if domain.running is None or not domain.backed_up:
            why = "libvirt knows of no such job, nor how it ended"
            raise HostRefused(f"cannot back up {name}'s disks", why=why)
        return None

    def cancel_backup(self, name: str, files: dict[str, str]) -> None:
        """There is nothing to end."""
        self.require(self.named(name))

    def thaw(self, name: str) -> None:
        """Nothing is frozen for longer than a call takes."""
        self.require(self.named(name))
