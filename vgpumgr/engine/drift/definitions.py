"""What the definition of a VM's domain says, and what was attached to it while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpumgr import domainxml
from vgpumgr.domainxml import Parts
from vgpumgr.engine.drift.side import Side
from vgpumgr.model.drift import Drift, DriftKind
from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.vm import VmRecord

# name, wanted, found; None: it has none.
Change = tuple[str, str | None, str | None]


def drifts(side: Side) -> Iterator[Drift]:
    """Definitions against what we would define now, in the parts that a VM's file asks for.

    Compared by parts, not by text: what a newer libvirt or a newer template of ours would have
    otherwise is no change by hand.
    """
    flags = {d.name: d.autostart for d in side.facts.domains if side.is_ours(d)}
    for vm in side.vms:
        defined = side.seen.definitions.get(vm.name)
        wanted = _wanted(side, vm)
        if defined is None or wanted is None or vm.name not in flags:
            continue
        changes = _changes(_all(wanted), _all(defined.parts))
        for change in changes:
            yield _definition(side, vm, change)
        starts = side.sites.site(side.host).autostarts(vm.spec)
        if flags[vm.name] != starts:
            yield _autostart(side, vm, wanted=starts)
        known = {name for name, _, _ in changes}
        devices = defined.parts.devices
        for change in _changes(devices, side.seen.running_devices.get(vm.name, devices)):
            if change[0] not in known:
                yield _attached(side, vm, change)


def _wanted(side: Side, vm: VmRecord) -> Parts | None:
    """None where a storage pool of it is gone, which is said elsewhere, and for an adopted VM that
    holds other devices than it came with.
    """
    try:
        return domainxml.parts(side.sites.definition(vm))
    except (Conflict, NotFound):
        return None


def _all(parts: Parts) -> dict[str, str]:
    return {**parts.settings, **parts.devices}


def _changes(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[Change]:
    names = sorted(wanted.keys() | found.keys())
    every = [(name, wanted.get(name), found.get(name)) for name in names]
    return [each for each in every if each[1] != each[2]]


def _definition(side: Side, vm: VmRecord, change: Change) -> Drift:
    name, wanted, found = change
    return Drift(
        kind=DriftKind.DEFINITION,
        host=side.host,
        vm=vm.name,
        subject=name,
        text=f"{vm.name}'s definition was changed: {_sentence(change)}",
        wanted=_shown(wanted),
        found=_shown(found),
        next=f"on {side.host}: virsh edit {vm.name}   "
        "(or write it into the VM's file and vgpumgr apply -f FILE)",
    )


def _attached(side: Side, vm: VmRecord, change: Change) -> Drift:
    name, wanted, found = change
    return Drift(
        kind=DriftKind.ATTACHED,
        host=side.host,
        vm=vm.name,
        subject=name,
        text=f"{vm.name} runs with other devices than it is defined with: {_sentence(change)}",
        wanted=_shown(wanted),
        found=_shown(found),
        next=f"vgpumgr vm stop {vm.name}, then vgpumgr vm start {vm.name}",
    )


def _autostart(side: Side, vm: VmRecord, *, wanted: bool) -> Drift:
    flag = "" if wanted else "--disable "
    return Drift(
        kind=DriftKind.DEFINITION,
        host=side.host,
        vm=vm.name,
        subject="autostart",
        text=f"autostart of {vm.name} is {_on(not wanted)}, should be {_on(wanted)}",
        wanted=_on(wanted),
        found=_on(not wanted),
        next=f"on {side.host}: virsh autostart {flag}{vm.name}",
    )


def _sentence(change: Change) -> str:
    name, wanted, found = change
    if found is None:
        return f"{name} is gone"
    if wanted is None:
        return f"{name} was added{f': {found}' if found else ''}"
    return f"{name} is {found}, should be {wanted}"


def _shown(text: str | None) -> str:
    return "none" if text is None else text or "there"


def _on(flag: bool) -> str:
    return "on" if flag else "off"
