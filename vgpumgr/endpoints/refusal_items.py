"""Refusals of a host or GPU in JSON, and its back-off."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from vgpumgr.endpoints.shapes import Time
from vgpumgr.model.refusal import Refusal

if TYPE_CHECKING:
    from vgpumgr.endpoints.call_context import CallContext

BACK_OFF = "back-off"


class RefusalItem(TypedDict):
    """What was refused to a VM there. ``counts``: it is evidence against the place."""

    at: Time
    vm: str
    operation: str
    what: str
    why: str
    counts: bool


class Refusals(TypedDict):
    """What no success has closed since, and for how many more seconds the place is chosen last."""

    back_off_s: float
    refusals: list[RefusalItem]


def own_vms(context: CallContext) -> frozenset[str] | None:
    """The names of the caller's VMs; None for who sees those of all tenants."""
    return None if context.scope.is_all else frozenset(vm.name for vm in context.reads.vms())


def refusals_item(refusals: Sequence[Refusal], vms: Collection[str] | None = None) -> Refusals:
    """The JSON of the refusals of one place; those of other VMs than ``vms`` count, and are not
    told of.
    """
    return {
        "back_off_s": round(max((each.left_s for each in refusals), default=0.0), 1),
        "refusals": [
            {
                "at": each.at,
                "vm": each.vm,
                "operation": each.operation,
                "what": each.what,
                "why": each.why,
                "counts": each.counts,
            }
            for each in refusals
            if vms is None or each.vm in vms
        ],
    }
