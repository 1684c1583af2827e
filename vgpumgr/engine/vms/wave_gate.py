"""The gate between two waves of a rolling change: VMs are looked at until they run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.domain import OFF, DomainState
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.ports import Host
from vgpumgr.model.rolling import Rolling
from vgpumgr.model.vm import VmRecord

POLL_S = 1.0
# It runs, but nothing in the guest tells so.
_SILENT = "its guest agent does not answer"


@dataclass(frozen=True, slots=True)
class ChangedVm:
    """A VM of a wave, and when it counts as up."""

    vm: VmRecord
    rolling: Rolling


def not_up(context: EngineContext, changed: Sequence[ChangedVm]) -> dict[str, str]:
    """By name, why a VM does not run again although it had its time; empty where all do, or where
    the wait was interrupted. VMs that were stopped by request since are not waited for.
    """
    by_host: dict[str, list[ChangedVm]] = {}
    for each in changed:
        if each.vm.running:
            by_host.setdefault(each.vm.host, []).append(each)
    work: dict[str, Callable[[], dict[str, str]]] = {
        name: partial(_until_up, context, name, group) for name, group in by_host.items()
    }
    down: dict[str, str] = {}
    for name, found in context.lanes.run(work, within_s=None).items():
        if isinstance(found, Exception):
            down |= {each.vm.name: f"{name}: {found}" for each in by_host[name]}
        else:
            down |= found
    return {} if context.stop.is_set() else down


def _until_up(context: EngineContext, host: str, group: Sequence[ChangedVm]) -> dict[str, str]:
    """Poll one host until all are up, or each that is not has had its time."""
    clock, begun = context.clock, context.clock.monotonic()
    while True:
        down = _down(context, host, group)
        over = clock.monotonic() - begun
        hoped = [each for each in group if down.get(each.vm.name) and _may_come(each, down, over)]
        if not hoped or context.stop.is_set():
            return down
        clock.wait(POLL_S)


def _may_come(each: ChangedVm, down: dict[str, str], over_s: float) -> bool:
    """Whether waiting may help: a guest that is off starts by itself no more."""
    return over_s < each.rolling.within_s and not down[each.vm.name].startswith("it is ")


def _down(context: EngineContext, name: str, group: Sequence[ChangedVm]) -> dict[str, str]:
    try:
        host = context.host(name)
        found = {each.vm.name: _why_down(host, each) for each in group}
    except VgpumgrError as error:
        return {each.vm.name: f"{name} does not tell: {error.message}" for each in group}
    return {vm: why for vm, why in found.items() if why}


def _why_down(host: Host, each: ChangedVm) -> str:
    found = host.domains.look(each.vm.name)
    if found is None:
        return "it is not defined"
    if found.state in OFF:
        return f"it is {found.state}"
    if found.state is not DomainState.RUNNING:
        return f"its guest is {found.state}"
    silent = each.rolling.agent and host.domains.guest(each.vm.name) is None
    return _SILENT if silent else ""
