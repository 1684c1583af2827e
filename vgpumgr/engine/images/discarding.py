"""Copies of an image that go: those that nobody uses. Pure but for the ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.steps import DeleteImage
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.image import CopyState, ImageCopy, ImageRecord
from vgpumgr.model.journal import DISCARD, Reservation


def discarding(
    image: ImageRecord, copies: Sequence[ImageCopy], view: LedgerView, opening: Opening
) -> Reservation:
    """Everything that deleting these copies writes first. Whoever has planned a VM on one of the
    hosts plans again.
    """
    operation = opening.operation("image retire")
    hosts = {each.host for each in copies}
    return Reservation(
        operation=operation,
        tasks=tuple(
            opening.copy_task(
                operation,
                DISCARD,
                DeleteImage(pool=each.pool, volume=image.volume),
                each,
                image.reference,
            )
            for each in copies
        ),
        copies=tuple(replace(each, state=CopyState.LEAVING) for each in copies),
        host_generations={host.name: host.generation for host in view.hosts if host.name in hosts},
    )
