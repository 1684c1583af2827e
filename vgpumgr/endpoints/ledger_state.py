"""The endpoint of the ledger itself: may it allocate?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.fleet_map import FreezeItem, freeze_item
from vgpumgr.endpoints.shapes import Nothing


class LedgerItem(TypedDict):
    """The ledger; ``frozen`` where it may not allocate."""

    name: str
    frozen: FreezeItem | None


def show_ledger(context: CallContext, _: Nothing) -> Result[LedgerItem]:
    """Whether it may allocate."""
    return Result(answer={"name": "ledger", "frozen": freeze_item(context.app.ledger.frozen())})


SHOW_LEDGER = Endpoint(
    name="ledger.show",
    method=HttpMethod.GET,
    path="/ledger",
    permission=Permission.FLEET_READ,
    summary="The ledger: whether it may allocate.",
    asks=Nothing,
    answers=LedgerItem,
    kind="Ledger",
    work=show_ledger,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (SHOW_LEDGER,)
