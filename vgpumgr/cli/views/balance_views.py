"""Balance as printed: hot hosts, the moves, and what stays."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.cli.output import table
from vgpumgr.endpoints.balance import (
    BalanceEnd,
    BalanceMoveItem,
    BalancePlanItem,
    ShareItem,
    hosts_words,
)
from vgpumgr.model.operation import TaskState


def balance_text(plan: BalancePlanItem) -> str:
    """The hot hosts and the hosts that get VMs, a line per move, and what cannot move."""
    return "\n".join(_lines(plan))


def _lines(plan: BalancePlanItem) -> Iterator[str]:
    yield hosts_words(plan)
    touched = {host for move in plan["moves"] for host in (move["from"], move["to"])}
    shown = [each for each in plan["hosts"] if each["hot"] or each["host"] in touched]
    if shown:
        yield table([_host(each) for each in shown])
    if plan["moves"]:
        yield table([_move(each) for each in plan["moves"]])
    for each in plan["staying"]:
        yield f"{each['name']} stays on {each['host']}: {each['why']}"


def _host(share: ShareItem) -> list[str]:
    load = f"GPUs {share['load']:.0%}" if share["load"] else ""
    now = max(share["cpu"], share["memory"], share["load"])
    after = f"{now:.0%} → {share['after']:.0%}"
    words = f"vCPUs {share['cpu']:.0%}", f"memory {share['memory']:.0%}", load
    return [f"  {share['host']}", "hot" if share["hot"] else "", after, *words]


def _move(move: BalanceMoveItem) -> list[str]:
    user = ""
    if move["user"]:
        stays = "is cut off" if move["cuts_off"] else "is on it, and stays"
        user = f"{move['user']} {stays}"
    return [f"  {move['name']}", f"{move['from']} → {move['to']}", move["how"], user]


def balanced_text(end: BalanceEnd) -> str:
    """How many moves are done."""
    if not end["moves"]:
        return balance_text(end)
    done = sum(vm["state"] == TaskState.DONE for vm in end["vms"])
    return f"{done} of {len(end['moves'])} moved"
