"""The proxies for a simulated host's helper, domains and storage, all over one call function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vgpumgr.domainxml import mark_text
from vgpumgr.hosts.program_runner import MAX_OUTPUT_BYTES, CallCut, CompletedProgram
from vgpumgr.model.codec import to_plain
from vgpumgr.model.domain import (
    DomainFacts,
    GuestFacts,
    KeptBeside,
    LiveMove,
    MoveProgress,
    Ownership,
    VolumeFacts,
)
from vgpumgr.model.errors import (
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    OutcomeUnknown,
    VgpumgrError,
)
from vgpumgr.model.formats import size_words
from vgpumgr.model.guest import GuestAnswer, GuestCommand
from vgpumgr.model.host import Installed, StoragePool
from vgpumgr.model.ports import Host
from vgpumgr.sim.transport.move_client import FleetPeer, drive, no_peer

# target, method, arguments, kind of the answer; may raise CallCut
Call = Callable[[str, str, dict[str, Any], Any], Any]

# Methods of libvirt that change nothing.
READS = frozenset({"list", "look", "xml", "pools", "networks", "filters", "versions"})
READS |= {"volumes", "live_xml", "cpu_fits", "kept_beside", "progress", "pull_progress", "download"}
READS |= {"read", "backup_progress", "checkpoints", "disk_bytes"}


class SimRunner:
    """Fulfils ``hosts.runner.Runner``: the one program that a simulated host runs is the helper."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def run(self, argv: Sequence[str], stdin: bytes, timeout_s: float) -> CompletedProgram:
        """The helper's answer to ``stdin``; the deadline is the channel's."""
        text = self._call("helper", "run", {"request": stdin.decode()}, str)
        if len(text) > MAX_OUTPUT_BYTES:
            raise CallCut(f"more than {MAX_OUTPUT_BYTES} bytes of output")
        return CompletedProgram(0, str(text).encode(), "")


def under_deadline(host: str, call: Call) -> Call:
    """``call``, whose cut answers become errors as those of a real host's libvirt."""

    def guarded(target: str, method: str, arguments: dict[str, Any], kind: Any) -> Any:
        try:
            return call(target, method, arguments, kind)
        except CallCut as cut:
            error: type[VgpumgrError] = HostUnreachable
            if method not in READS:
                error = OutcomeUnknown
            elif cut.timed_out:
                error = DeadlineExceeded
            raise error(
                f"{target} {method} on {host} was aborted",
                why=cut.why,
                next=f"vgpumgr host probe {host}",
            ) from cut

    return guarded


class CountedCalls:
    """Calls of one host's libvirt; ``changes`` counts the beginnings and ends of changes."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.changes = 0

    def __call__(self, target: str, method: str, arguments: dict[str, Any], kind: Any, /) -> Any:
        """One call."""
        if method in READS or method in {"guest", "run_in_guest"}:
            return self._call(target, method, arguments, kind)
        self.changes += 1
        try:
            return self._call(target, method, arguments, kind)
        finally:
            self.changes += 1


@dataclass(frozen=True, slots=True)
class SimInstallation:
    """Fulfils ``ports.Installation``."""

    call: Call

    def look(self) -> Installed:
        """What is there."""
        found: Installed = self.call("node", "look", {}, Installed)
        return found

    def install(self) -> None:
        """Have claims restored at boot, as the roles set a host up."""
        self.call("node", "install", {}, None)

    def remove(self) -> None:
        """Boot as a host without the unit."""
        self.call("node", "uninstall", {}, None)


_FACTS = tuple[DomainFacts, ...]


class ProxyDomains:
    """Fulfils ``ports.Domains``."""

    def __init__(self, call: Call, place: FleetPeer) -> None:
        self._call = call
        self._place = place

    def list(self) -> _FACTS:
        """Every domain, foreign ones included."""
        found: _FACTS = self._call("domains", "list", {}, _FACTS)
        return found

    def look(self, name: str) -> DomainFacts | None:
        """One domain, or None."""
        found: DomainFacts | None = self._call(
            "domains", "look", {"name": name}, DomainFacts | None
        )
        return found

    def xml(self, name: str) -> str:
        """The inactive XML."""
        return str(self._call("domains", "xml", {"name": name}, str))

    def define(self, xml: str) -> str:
        """Define and read back."""
        return str(self._call("domains", "define", {"xml": xml}, str))

    def start(self, name: str) -> None:
        """Start."""
        self._do("start", name=name)

    def shutdown(self, name: str) -> None:
        """Ask the guest to power off."""
        self._do("shutdown", name=name)

    def reboot(self, name: str) -> None:
        """Ask the guest to reboot."""
        self._do("reboot", name=name)

    def destroy(self, name: str) -> None:
        """Power off."""
        self._do("destroy", name=name)

    def undefine(self, name: str, *, keep_tpm: bool = False) -> None:
        """Forget it."""
        self._do("undefine", name=name, keep_tpm=keep_tpm)

    def set_autostart(self, name: str, on: bool) -> None:
        """Start with the host, or not."""
        self._do("set_autostart", name=name, on=on)

    def live_xml(self, name: str) -> str:
        """The running domain's XML."""
        return str(self._call("domains", "live_xml", {"name": name}, str))

    def set_ownership(self, name: str, mark: Ownership | None) -> None:
        """Put our mark into its metadata, or take it out."""
        self._do("set_metadata", name=name, text="" if mark is None else mark_text(mark))

    def kept_beside(self, name: str) -> KeptBeside:
        """Snapshots and saved memory."""
        found: KeptBeside = self._call("domains", "kept_beside", {"name": name}, KeptBeside)
        return found

    def cpu_fits(self, xml: str) -> bool | None:
        """Can a guest with that CPU run here?"""
        found: bool | None = self._call("domains", "cpu_fits", {"xml": xml}, None)
        return found

    def migrate(self, move: LiveMove, target: Host) -> None:
        """Move a running domain to another host of the same fleet."""
        peer = target.domains
        if not isinstance(peer, ProxyDomains):
            raise no_peer(self._place, target)
        drive(self._place, peer._place, move)

    def cancel_migration(self, name: str) -> None:
        """End a move that is under way."""
        self._call("moves", "cancel", {"name": name}, None)

    def migration_progress(self, name: str) -> MoveProgress | None:
        """How far the move is."""
        found: MoveProgress | None = self._call(
            "moves", "progress", {"name": name}, MoveProgress | None
        )
        return found

    def resume(self, name: str) -> None:
        """Let a paused domain go on."""
        self._do("resume", name=name)

    def guest(self, name: str) -> GuestFacts | None:
        """What its agent tells."""
        found: GuestFacts | None = self._call("domains", "guest", {"name": name}, GuestFacts | None)
        return found

    def run_in_guest(self, name: str, command: GuestCommand) -> GuestAnswer | None:
        """Have its agent run a program."""
        arguments = {"name": name, "run": list(command.run)}
        found: GuestAnswer | None = self._call(
            "domains", "run_in_guest", arguments, GuestAnswer | None
        )
        return found and replace(found, output=found.output[: command.most_bytes])

    def switch_disks(self, name: str, files: Mapping[str, str], *, freeze: bool) -> None:
        """Have a running domain go on in other files."""
        self._do("switch_disks", name=name, files=dict(files), freeze=freeze)

    def thaw(self, name: str) -> None:
        """Let a frozen guest write again."""
        self._do("thaw", name=name)

    def define_filter(self, name: str, xml: str) -> None:
        """Have libvirt know a network filter."""
        self._do("define_filter", name=name, xml=xml)

    def drop_filter(self, name: str) -> None:
        """Forget a network filter."""
        self._do("drop_filter", name=name)

    def attach_disk(self, name: str, xml: str) -> None:
        """Have a running domain see one disk more."""
        self._do("attach_disk", name=name, xml=xml)

    def detach_disk(self, name: str, disk: str) -> None:
        """Have a running domain let go of a disk."""
        self._do("detach_disk", name=name, disk=disk)

    def grow_disk(self, name: str, disk: str, capacity_bytes: int) -> None:
        """Make a running domain's disk larger."""
        self._do("grow_disk", name=name, disk=disk, capacity_bytes=capacity_bytes)

    def disk_bytes(self, name: str, disk: str) -> int:
        """How many bytes its guest sees of it."""
        return int(self._call("domains", "disk_bytes", {"name": name, "disk": disk}, int))

    def pull_disk(self, name: str, disk: str, below: str) -> None:
        """Begin to leave out a file below its disk."""
        self._do("pull_disk", name=name, disk=disk, below=below)

    def pull_progress(self, name: str, disk: str) -> MoveProgress | None:
        """How far that is."""
        arguments = {"name": name, "disk": disk}
        found: MoveProgress | None = self._call(
            "domains", "pull_progress", arguments, MoveProgress | None
        )
        return found

    def cancel_pull(self, name: str, disk: str) -> None:
        """End it."""
        self._do("cancel_pull", name=name, disk=disk)

    def begin_backup(
        self,
        name: str,
        files: Mapping[str, str],
        *,
        freeze: bool,
        checkpoint: str = "",
        since: str = "",
    ) -> None:
        """Begin to copy its disks."""
        marks = {"checkpoint": checkpoint, "since": since}
        self._do("begin_backup", name=name, files=dict(files), freeze=freeze, **marks)

    def checkpoints(self, name: str) -> frozenset[str]:
        """Since when it remembers what is written."""
        found: frozenset[str] = self._call("domains", "checkpoints", {"name": name}, frozenset[str])
        return found

    def forget_checkpoint(self, name: str, checkpoint: str) -> None:
        """Remember that no longer."""
        self._do("forget_checkpoint", name=name, checkpoint=checkpoint)

    def backup_progress(self, name: str) -> MoveProgress | None:
        """How far that is."""
        found: MoveProgress | None = self._call(
            "domains", "backup_progress", {"name": name}, MoveProgress | None
        )
        return found

    def cancel_backup(self, name: str, files: Mapping[str, str]) -> None:
        """End it."""
        self._do("cancel_backup", name=name, files=dict(files))

    def _do(self, method: str, **arguments: Any) -> None:
        self._call("domains", method, arguments, None)


_POOLS = tuple[StoragePool, ...]
_VOLUMES = tuple[VolumeFacts, ...]
# Simulated hosts keep what lies on their disks in memory.
_MOST_DATA_BYTES = 64 << 20


class ProxyStorage:
    """Fulfils ``ports.Storage``."""

    def __init__(self, call: Call, place: FleetPeer) -> None:
        self._call = call
        self._place = place

    def pools(self, only: Collection[str] | None = None) -> _POOLS:
        """Every storage pool, or those of these names."""
        asked = {} if only is None else {"only": sorted(only)}
        found: _POOLS = self._call("storage", "pools", asked, _POOLS)
        return found

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        """One volume, or None."""
        arguments = {"pool": pool, "volume": volume}
        found: VolumeFacts | None = self._call("storage", "look", arguments, VolumeFacts | None)
        return found

    def create(
        self, pool: str, xml: str, *, copy_from: str | None = None, from_pool: str = ""
    ) -> VolumeFacts:
        """Create a volume."""
        arguments = {"pool": pool, "xml": xml, "copy_from": copy_from, "from_pool": from_pool}
        made: VolumeFacts = self._call("storage", "create", arguments, VolumeFacts)
        return made

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        """Write into a volume."""
        self._call("storage", "upload", {"pool": pool, "volume": volume, "data": data}, None)

    def read(self, pool: str, volume: str, most_bytes: int) -> bytes:
        """A volume's file, cut off."""
        arguments = {"pool": pool, "volume": volume, "most_bytes": most_bytes}
        found: bytes = self._call("storage", "read", arguments, bytes)
        return found

    def volumes(self, pool: str) -> _VOLUMES:
        """Every volume of a pool."""
        found: _VOLUMES = self._call("storage", "volumes", {"pool": pool}, _VOLUMES)
        return found

    def fill(self, pool: str, volume: str, length: int, pieces: Iterable[bytes | int]) -> None:
        """Write a volume's whole file; it goes in one piece, without the zeros at its end."""
        data, holes = bytearray(), 0
        for piece in pieces:
            if isinstance(piece, int):
                holes += piece
                continue
            if len(data) + holes + len(piece) > _MOST_DATA_BYTES:
                raise HostRefused(
                    f"volume {volume} is too large for a simulated host",
                    why=f"it keeps {size_words(_MOST_DATA_BYTES)} of a volume's data at most",
                    next="use a smaller file for trials",
                )
            data += bytes(holes) + piece
            holes = 0
        arguments = {"pool": pool, "volume": volume, "length": length, "data": bytes(data)}
        self._call("storage", "fill", arguments, None)

    def grow(self, pool: str, volume: str, capacity_bytes: int) -> None:
        """Make a volume larger."""
        arguments = {"pool": pool, "volume": volume, "capacity_bytes": capacity_bytes}
        self._call("storage", "grow", arguments, None)

    def delete(self, pool: str, volume: str) -> None:
        """Delete a volume."""
        self._call("storage", "delete", {"pool": pool, "volume": volume}, None)

    def xml(self, pool: str, volume: str) -> str:
        """The volume's XML."""
        return str(self._call("storage", "xml", {"pool": pool, "volume": volume}, str))

    def copy_to(self, pool: str, volume: str, target: Host, seen: Callable[[int], None]) -> None:
        """A volume's file into its namesake's: simulated ones are small, and go in one piece."""
        peer = target.storage
        if not isinstance(peer, ProxyStorage):
            raise no_peer(self._place, target)
        named = {"pool": pool, "volume": volume}
        content = to_plain(self._call("storage", "download", named, None))
        peer._call("storage", "receive", {**named, "content": content}, None)
        seen(content["length"])


_NAMES = tuple[str, ...]
_VERSIONS = tuple[str, str]


class ProxyLibvirt:
    """Domains, storage and the rest of a connection."""

    def __init__(self, call: Call, place: FleetPeer) -> None:
        self._call = CountedCalls(call)
        self.domains = ProxyDomains(self._call, place)
        self.storage = ProxyStorage(self._call, place)

    @property
    def changes(self) -> int:
        """How often a change over this has begun or ended; moves go from host to host."""
        return self._call.changes

    def networks(self) -> _NAMES:
        """The names of libvirt's networks."""
        found: _NAMES = self._call("node", "networks", {}, _NAMES)
        return found

    def filters(self) -> _NAMES:
        """The names of libvirt's network filters."""
        found: _NAMES = self._call("node", "filters", {}, _NAMES)
        return found

    def versions(self) -> _VERSIONS:
        """Versions of libvirt and QEMU."""
        found: _VERSIONS = self._call("node", "versions", {}, _VERSIONS)
        return found
