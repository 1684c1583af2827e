"""``image retire``: an image is used for no new VM, and its unused copies are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vgpumgr.engine.images.image_copies import pools_of, users
from vgpumgr.engine.images.image_import import find, finish_copies, image_by_id
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.steps.image_steps import DeleteImage
from vgpumgr.model.errors import InUse
from vgpumgr.model.image import CopyState, ImageCopy, ImageRecord
from vgpumgr.model.operation import DISCARD, Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class RetirementReport:
    """``kept`` are the copies that VMs use: the VMs by host."""

    image: ImageRecord
    outcome: Outcome = field(default_factory=Outcome)
    kept: dict[str, tuple[str, ...]] = field(default_factory=dict)


def retire(context: EngineContext, reference: str, *, delete_copies: bool) -> RetirementReport:
    """Use an image for no new VM; with ``delete_copies`` unused copies are deleted. InUse while a
    pool creates its desktops from it.
    """
    image = find(context.ledger.images(), reference)
    if pools := pools_of(image, context.ledger.pools()):
        raise InUse(
            f"image {image.reference} is in use",
            why=f"desktops of pool {', '.join(pools)} are created from it",
            next=f"vgpumgr pool push-image {pools[0]} with another version first",
        )
    context.ledger.retire_image(image.id)
    if not delete_copies:
        return RetirementReport(image=image_by_id(context, image.id))
    finish_copies(context, image)

    def attempt() -> RetirementReport:
        view = context.view()
        current = next(each for each in view.images if each.id == image.id)
        used = {each.id: users(current, view.vms, each) for each in current.copies}
        going = [each for each in current.copies if not used[each.id]]
        start = retire_reservation(
            current, [each for each in going if each.state is CopyState.THERE], view,
            context.opening(),
        )  # fmt: skip
        outcome = operation_lifecycle.begin(context, start)
        kept = {each.host: used[each.id] for each in current.copies if used[each.id]}
        return RetirementReport(image=image_by_id(context, image.id), outcome=outcome, kept=kept)

    return until_current(attempt)


def retire_reservation(
    image: ImageRecord, copies: Sequence[ImageCopy], view: LedgerView, opening: OperationOpening
) -> Reservation:
    """The transaction that deletes these copies. A process that has planned a VM on one of the
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
