"""Fragmentation, for people."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.cli.output import Item, table
from vgpumgr.cli.views.plans import reason_rows
from vgpumgr.model.size import format_mib


def gauge_text(gauge: Item) -> str:
    """The gauge in a sentence."""
    free, lost = (format_mib(gauge[key]) for key in ("free_mib", "unusable_mib"))
    share, mix = f"{gauge['share']:.0%}", gauge["mix"]
    return f"fragmentation {share}: {lost} of {free} free GPU memory are of no use to {mix}"


def stranded_rows(found: Sequence[Item]) -> list[str]:
    """The rule per GPU; what is said of several GPUs of a host is said once, with their memory."""
    free: dict[str, int] = {}
    for each in found:
        free[each["host"]] = free.get(each["host"], 0) + each["free_mib"]
    lines = [f"{host}: {format_mib(mib)} of no use" for host, mib in free.items()]
    rows = reason_rows(each["reason"] for each in found)
    return [*lines, *([table(rows)] if rows else [])]
