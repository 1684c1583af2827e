"""Owners' desktops that get a new image, and keep the rest of what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpumgr.engine.planning.changes import refuse_resting
from vgpumgr.engine.planning.plan import reached
from vgpumgr.engine.planning.preflight import check_disks
from vgpumgr.engine.pooling import desktop_spec
from vgpumgr.engine.reserving.reimaging import reimaging
from vgpumgr.engine.reserving.shelving import Stop
from vgpumgr.engine.running import leftovers, operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.pool import DesktopRecord
from vgpumgr.model.vm import DiskSpec


def update(session: Session, rows: Sequence[DesktopRecord], stop: Stop) -> Outcome:
    """First disks anew, from the images that the rows say; Conflict or NotFound where an image is
    no good: the desktops run on as they are.
    """
    view = session.view()
    disks = _disks(session, view, rows)
    vms = [vm for vm in view.vms if vm.id in disks]
    leftovers.refuse_unfinished(session.ledger, vms)
    refuse_resting(((vm.name, vm.host) for vm in vms), reached(view).resting)
    records = {host.name: host for host in view.hosts}
    wanted = [(vm.host, disks[vm.id]) for vm in vms]
    check_disks(wanted, records, session.hosts, session.lanes)
    return operations.begin(session, reimaging(disks, view, session.opening(), stop))


def _disks(
    session: Session, view: LedgerView, rows: Sequence[DesktopRecord]
) -> Mapping[str, DiskSpec]:
    """The first disk that a desktop made now would have, by the id of its VM."""
    pools = {each.id: each.spec for each in session.ledger.pools()}
    return {
        row.vm_id: desktop_spec(pools[row.pool], row.name, row.desktop.image, view.images).disks[0]
        for row in rows
    }
