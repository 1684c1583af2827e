"""The hosts that get a copy of an image, and why others cannot."""

from __future__ import annotations

from functools import partial

from vgpumgr.engine.images.importing import Wish, obstacle
from vgpumgr.engine.session import Session
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import Conflict
from vgpumgr.model.image import CopyState, ImageRecord
from vgpumgr.model.ports import Host


def targets(
    session: Session, view: LedgerView, wish: Wish, image: ImageRecord
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Hosts that lack it, and those that cannot have it; Conflict where a named one cannot."""
    asked = [host for host in view.hosts if not wish.hosts or host.name in wish.hosts]
    lost = _lost(session, view, wish, image)
    hosts, left_out = [], {}
    for host in asked:
        copy = image.copy(host.name, wish.pool)
        if copy is not None and copy.state is CopyState.THERE and host.name not in lost:
            continue
        why = obstacle(host, wish.pool, image.file_bytes)
        if copy is not None and copy.state is not CopyState.THERE:
            why = f"its copy is {copy.state}: vgpumgr operation list"
        if why:
            left_out[host.name] = why
        else:
            hosts.append(host.name)
    if not asked:
        raise Conflict("there is no host to copy images to", next="vgpumgr host add")
    if left_out and (wish.hosts or len(left_out) == len(asked)):
        name, why = next(iter(left_out.items()))
        raise Conflict(
            f"image {image.reference} cannot be copied to {name}",
            why=why,
            next=f"vgpumgr host show {name}, or --host and --pool for other places",
        )
    return tuple(hosts), left_out


def _lost(session: Session, view: LedgerView, wish: Wish, image: ImageRecord) -> frozenset[str]:
    """The hosts that surely have no copy any more, though the ledger has: somebody deleted it."""
    work = {
        host.name: partial(_is_gone, session.hosts.open(host), wish.pool, image.volume)
        for host in view.hosts
        if wish.pool in image.pools(host.name) and (not wish.hosts or host.name in wish.hosts)
    }
    return frozenset(name for name, gone in session.lanes.run(work).items() if gone is True)


def _is_gone(host: Host, pool: str, volume: str) -> bool:
    return host.storage.look(pool, volume) is None
