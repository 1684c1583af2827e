"""More VMs of an order by deciding some of them anew, together, window by window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpumgr.model.placement import Decision, Fleet, HostSupply, Placed
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.joint.order import Order
from vgpumgr.placement.joint.problem import NOTHING_BETTER, Answer, Solve, Solver
from vgpumgr.placement.joint.seating import seated
from vgpumgr.placement.joint.window import Window

EFFORT = 6.0
"""For all windows of an order, in seconds of a machine that is always as fast."""

ROUNDS = ((32, 0.3), (64, 0.6), (128, 2.0))
"""VMs decided together, and the effort for one window, if it is not the whole order: small windows
are settled at once or not at all, large ones find what small ones cannot."""

PATIENCE = 5.0
"""So many times as long may it take by the clock."""


def improved(
    fleet: Fleet, requests: Sequence[VmSpec], decisions: Mapping[int, Decision], solver: Solver
) -> dict[int, Placed]:
    """Where VMs of an order go, by position: more of them than ``decisions`` place, or the same.

    Of the VMs of the order that share a window of hosts any may go on any of them, in place of
    any other, but never so that less GPU is taken than before. Left alone are VMs that ask for
    company, or that others ask for, and hosts that have such VMs of the order. The order of
    ``decisions`` is that in which they were made, and so is the order of what comes back.
    """
    order = Order(fleet, requests, decisions)
    if order.waiting:
        with solver() as solve:
            _window_by_window(order, solve)
    return order.placed


def _window_by_window(order: Order, solve: Solve) -> None:
    left = EFFORT
    for vms, effort in ROUNDS:
        for hosts in order.windows(vms):
            if left <= 0 or not order.waiting:
                return
            whole = order.has_only(hosts)
            answer = _decided_anew(order, hosts, left if whole else min(left, effort), solve)
            if answer is None or whole:
                return
            left -= answer.effort


def _decided_anew(
    order: Order, hosts: tuple[HostSupply, ...], effort: float, solve: Solve
) -> Answer | None:
    """None: there is no use in going on."""
    members = order.members(hosts)
    there = {number for number in members if number in order.placed}
    window = Window(Fleet(hosts=hosts), members)
    problem = window.problem(there, effort, PATIENCE * effort)
    if problem is None:
        return NOTHING_BETTER
    answer = solve(problem)
    if answer is not None and answer.held:
        found = seated(window, answer)
        if len(found) > len(there) and window.milli(found) >= problem.milli:
            order.take(members, found)
    return answer
