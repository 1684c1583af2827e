"""``vgpumgr layout show``: how GPUs are declared and found to be partitioned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vgpumgr.cli.context import Context
from vgpumgr.cli.output import Column, chosen_format, print_list, table
from vgpumgr.cli.terminal import echo
from vgpumgr.cli.views.ages import seen_text
from vgpumgr.cli.views.gpu_items import Seen, partitioning, seen_gpus
from vgpumgr.cli.views.gpu_words import instance_text, layout_text, mig_text, mode_text, vfs_text
from vgpumgr.cli.views.layout_plans import goal_text

COLUMNS = (
    Column("HOST", "host"),
    Column("DEVICE", "device"),
    Column("MODEL", "model"),
    Column("LAYOUT", lambda gpu: layout_text(gpu["layout"])),
    Column("MIG", lambda gpu: mig_text(gpu["mig"])),
    Column("VFS", lambda gpu: vfs_text(gpu["vfs"])),
    Column("MODE", lambda gpu: mode_text(gpu["mixed_size"])),
    Column("SCHEDULER", "scheduler"),
    Column("SEEN", seen_text),
    Column("ID", "name", wide=True),
)


def print_states(context: Context, hosts: Sequence[str]) -> None:
    """GPUs that can be partitioned, and those with a layout, of these hosts (all without)."""
    seen = [
        each
        for each in seen_gpus(context)
        if (not hosts or each.gpu.host in hosts) and _partitionable(each)
    ]
    items = [_item(each) for each in seen]
    if chosen_format().name != "table" or chosen_format().columns or not items:
        print_list("LayoutState", items, COLUMNS)
        return
    shown = [column for column in COLUMNS if not column.wide]
    head = [column.title for column in shown]
    lines = table([head, *([c.text(item) for c in shown] for item in items)]).splitlines()
    echo(lines[0])
    for line, each, item in zip(lines[1:], seen, items, strict=True):
        echo(line)
        for more in _below(each, item):
            echo(f"    {more}")


def _partitionable(seen: Seen) -> bool:
    facts = seen.gpu.facts
    return bool(seen.layout or facts.mig or facts.sriov_total or facts.vfs)


def _item(seen: Seen) -> dict[str, Any]:
    facts = seen.gpu.facts
    return {
        "name": seen.gpu.id,
        "host": seen.gpu.host,
        "device": facts.device,
        "model": facts.model,
        **seen.look,
        **partitioning(seen),
    }


def _below(seen: Seen, item: dict[str, Any]) -> Iterator[str]:
    if seen.layout is not None:
        yield f"declared  {goal_text(seen.layout.goal)}"
    for each in (item["mig"] or {}).get("instances") or ():
        yield instance_text(each)
