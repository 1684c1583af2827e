"""Live migration: libvirt's managed direct way, of which we are the client.

We hold both libvirt connections and drive libvirt's protocol version 3 (``virDomainMigrate3``);
QEMU talks to QEMU, by the address and port that the target names. A daemon drops its part of a move
when the connection of the client that drives it closes (libvirt 9.0 src/qemu/qemu_migration.c), so
a client that dies leaves, by the last phase that had ended:

- begin: nothing. The source runs.
- prepare, and in the middle of perform: the target's QEMU (paused, transient) is killed. The
  source runs; its job ends a little later. A device of the target's may have to be recreated
  (mtty: EBADF).
- perform: the target's QEMU is killed. The source is *paused* until somebody acts.
- finish: the target runs, persistent. The source is *paused* until somebody acts.
- confirm: the target runs, persistent. The source is off, its definition stays.

What a recovery must know: a paused source tells nothing by itself. Where the target runs the
domain, the source's is powered off and never resumed; where the target surely has none, the
source's is resumed. A target that is *paused and persistent* is finishing: a daemon that hung does
what the dead client had still asked for; look again. While ``progress`` on either side is not
None, a daemon is still at it. A target that cannot be read leaves both as they are.
"""

from __future__ import annotations

from typing import Any

import libvirt

from vgpumgr.model.domain import DomainState, LiveMove, MoveProgress
from vgpumgr.model.errors import HostRefused, OutcomeUnknown, VgpumgrError
from vgpumgr.virt.domain_lookup import find, require, state
from vgpumgr.virt.libvirt_errors import broken, calling, translated

# VFIO devices cannot be moved after the guest has been started elsewhere: no post-copy, ever. A
# guest that writes faster than the network carries is slowed down until the move ends.
_FLAGS = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_ABORT_ON_ERROR
    | libvirt.VIR_MIGRATE_AUTO_CONVERGE
)
_NOT_UNDER_WAY = frozenset(
    {libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_NO_SUPPORT}
)


def migrate(source: Any, target: Any, move: LiveMove) -> None:
    """Move the domain between two connections; returns when it runs on the target, read back.

    HostRefused (or a more telling error): it runs on the source as before. OutcomeUnknown: a
    connection broke, or the source does not run it any more; look at both.
    """
    doing = f"move domain {move.name}"
    with calling(source, doing):
        domain = require(source, move.name)
        if state(domain) is not DomainState.RUNNING:
            raise HostRefused(f"cannot {doing}", why="it does not run", next="")
    try:
        domain.migrate3(target, _parameters(move), _flags(move))
    except libvirt.libvirtError as error:
        raise _failed(source, target, move, error) from error
    _check(source, target, move)


def _flags(move: LiveMove) -> int:
    flags = _FLAGS
    if move.to.tls:
        flags |= libvirt.VIR_MIGRATE_TLS
    if move.copied:
        flags |= libvirt.VIR_MIGRATE_NON_SHARED_DISK
    return int(flags)


def _parameters(move: LiveMove) -> dict[str, object]:
    address = f"[{move.to.address}]" if ":" in move.to.address else move.to.address
    given: dict[str, object] = {
        libvirt.VIR_MIGRATE_PARAM_URI: f"tcp://{address}",
        libvirt.VIR_MIGRATE_PARAM_DEST_XML: move.live_xml,
        libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: move.persistent_xml,
    }
    if move.to.tls and move.to.tls_name:
        given[libvirt.VIR_MIGRATE_PARAM_TLS_DESTINATION] = move.to.tls_name
    if move.to.bandwidth_mib_s is not None:
        given[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = move.to.bandwidth_mib_s
    if move.copied:
        given[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = list(move.copied)
    return given


def _failed(source: Any, target: Any, move: LiveMove, error: libvirt.libvirtError) -> VgpumgrError:
    """libvirt lets the guest go on at the source after a failure: that is read back, not believed.

    Where the target's connection broke nobody knows whether the guest was started there already.
    """
    doing = f"move domain {move.name}"
    if broken(source) or broken(target):
        return OutcomeUnknown(f"cannot {doing}", why=f"a connection to libvirt broke: {error}")
    now = _state(source, move.name)
    if now is DomainState.RUNNING:
        return translated(error, f"{doing}; it keeps running where it is")
    found = "gone" if now is None else str(now)
    return OutcomeUnknown(f"cannot {doing}", why=f"{error}; where it was, the domain is {found}")


def _check(source: Any, target: Any, move: LiveMove) -> None:
    here, there = _state(source, move.name), _state(target, move.name)
    if there is DomainState.RUNNING and here in {None, DomainState.SHUTOFF}:
        return
    raise OutcomeUnknown(
        f"domain {move.name} was moved, but is not in the expected state",
        why=f"on the target it is {there or 'absent'}, on the source {here or 'absent'}",
    )


def _state(connection: Any, name: str) -> DomainState | None:
    with calling(connection, f"look at domain {name} after its move", changes=True):
        domain = find(connection, name)
        return None if domain is None else state(domain)


def cancel(domain: Any) -> None:
    """End a move that is under way; none under way is no error."""
    try:
        domain.abortJob()
    except libvirt.libvirtError as error:
        if error.get_error_code() not in _NOT_UNDER_WAY:
            raise


def progress(domain: Any) -> MoveProgress | None:
    """Memory, disks and devices together; None without a job. Zeros until QEMU has begun."""
    try:
        seen = domain.jobStats()
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_OPERATION_UNSUPPORTED:
            return MoveProgress(total_bytes=0, left_bytes=0)  # "only on the source host"
        if error.get_error_code() in _NOT_UNDER_WAY:
            return None
        raise
    if seen.get("type") not in {libvirt.VIR_DOMAIN_JOB_BOUNDED, libvirt.VIR_DOMAIN_JOB_UNBOUNDED}:
        return None
    return MoveProgress(
        total_bytes=seen.get(libvirt.VIR_DOMAIN_JOB_DATA_TOTAL, 0),
        left_bytes=seen.get(libvirt.VIR_DOMAIN_JOB_DATA_REMAINING, 0),
    )
