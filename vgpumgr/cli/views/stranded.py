"""Fragmentation, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vgpumgr.cli.output import Item, table
from vgpumgr.cli.views.plans import reason_rows
from vgpumgr.model.size import format_mib

if TYPE_CHECKING:
    from vgpumgr.placement.stranded import Stranded


def gauge_text(gauge: Item) -> str:
    """The gauge in a sentence."""
    free, lost = (format_mib(gauge[key]) for key in ("free_mib", "unusable_mib"))
    share, mix = f"{gauge['share']:.0%}", gauge["mix"]
    return f"fragmentation {share}: {lost} of {free} free GPU memory are unusable for {mix}"


def stranded_rows(found: Sequence[Stranded]) -> list[str]:
    """The rule per GPU; what is said of several GPUs is said once; with the memory per host."""
    free: dict[str, int] = {}
    for each in found:
        free[each.host] = free.get(each.host, 0) + each.free_mib
    lines = [f"{host}: {format_mib(mib)} unusable" for host, mib in free.items()]
    rows = [[f"  {where}", *rest] for where, *rest in reason_rows(each.reason for each in found)]
    return [*lines, *([table(rows)] if rows else [])]
