"""VFs of NICs for guests: claimed, with the trust and spoof check that the PF is to have for them.

libvirt binds such a VF and has the PF set its MAC address and VLAN, and undoes both itself
(``<interface type='hostdev' managed='yes'>``); trust and spoof check it does not know.
"""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, claims, errors, pci, sysfs, wanted_state
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.facts import nics
from vgpumgr.helper.system import System

_ETHERNET = "0200"  # PCI class: Ethernet controller
_READY_SECONDS = 10.0
DEFAULTS = {"trust": False, "spoof_check": True}
"""What Intel's drivers set for a VF that comes on; a VF that a VM had goes back to this."""


def look(call: Call) -> dict[str, Any]:
    """The ``nic_vf_look`` verb: the claim, and what the PF has set; ``exists`` False without it."""
    system, address = call.system, arguments.pci(call.args, "address")
    claim = claims.load(system, pci.unit_of(address))
    if not pci.exists(system, address):
        return {"exists": False, "claim": claim}
    interface, number = _place(system, address)
    told = nics.attributes(system, interface, number)
    return {"exists": True, "claim": claim, "interface": interface, "number": number, **told}


def take(call: Call) -> dict[str, Any]:
    """The ``nic_vf_take`` verb: claim the VF, set trust and spoof check, read back. Repeating it
    sets them again.
    """
    system, address = call.system, arguments.pci(call.args, "address")
    presented, unit = arguments.claim(call.args, "claim"), pci.unit_of(address)
    want = {"kind": wanted_state.NIC, "address": address, **_settings(call.args)}
    held = claims.may_take(call, unit, presented)
    _require_free(system, address)
    if held is None or held["wanted"] != want:
        claims.put(call, unit, presented, want)
    try:
        make(system, want)
    except HelperError:
        if held is None:
            claims.drop(system, unit)
        raise
    return {"trust": want["trust"], "spoof_check": want["spoof_check"]}


def release(call: Call) -> dict[str, Any]:
    """The ``nic_vf_release`` verb: trust and spoof check as a new VF has them, then the claim goes.
    A VF that is gone has neither.
    """
    system, address = call.system, arguments.pci(call.args, "address")
    presented, unit = arguments.claim(call.args, "claim"), pci.unit_of(address)
    held = claims.may_take(call, unit, presented)
    if held is None:
        return {"released": False}
    if pci.exists(system, address):
        group = sysfs.iommu_group(system, pci.path(address))
        if sysfs.held(system, group):
            raise HelperError(errors.IN_USE, f"{address} is in use", "a guest has it")
        make(system, {**held["wanted"], **DEFAULTS})
    claims.drop(system, unit)
    return {"released": True}


def make(system: System, want: dict[str, Any]) -> None:
    """Have the PF set what a claim asks for, and read it back."""
    address = want["address"]
    if not pci.exists(system, address):
        raise HelperError(errors.NOT_FOUND, f"no PCI function {address}", "are the VFs on?")
    interface, number = _place(system, address)
    wanted = {name: want[name] for name in DEFAULTS}
    said = ""

    def is_so() -> bool:
        nonlocal said
        there = nics.attributes(system, interface, number)
        if all(there[name] == wanted[name] for name in wanted):
            return True
        # A VF that is being reset refuses for a moment (i40e: EAGAIN).
        said = _set(system, interface, number, wanted, there) or said
        return False

    if not sysfs.wait_until(system, is_so, _READY_SECONDS):
        there = nics.attributes(system, interface, number)
        now = ", ".join(f"{name} is {there[name]}" for name in wanted)
        why = f"asked for {wanted}; {now}{f'; ip said: {said}' if said else ''}"
        raise HelperError(errors.REFUSED, f"{interface} does not set its VF {number} so", why)


def _set(
    system: System, interface: str, number: int, wanted: dict[str, bool], there: dict[str, Any]
) -> str:
    """What ``ip`` said where it refused; its exit status tells nothing that a look does not."""
    words = {"trust": "trust", "spoof_check": "spoofchk"}
    said = ""
    for name, word in words.items():
        if there[name] != wanted[name]:
            value = "on" if wanted[name] else "off"
            where = ("link", "set", "dev", interface, "vf", str(number))
            status, output = nics.run(system, *where, word, value)
            said = output.strip() if status else said
    return said


def _place(system: System, address: str) -> tuple[str, int]:
    """The PF's interface, and the VF's number."""
    board = pci.physical(system, address)
    if board is None or not pci.kind(system, address).startswith(_ETHERNET):
        why = f"its PCI class is {pci.kind(system, address)}, and it is {'a' if board else 'no'} VF"
        raise HelperError(errors.REFUSED, f"{address} is no VF of a NIC", why)
    numbers = {vf: number for number, vf in pci.numbered_vfs(system, board)}
    return nics.interface_of(system, board), numbers[address]


def _settings(args: Any) -> dict[str, bool]:
    return {name: arguments.flag(args, name) for name in DEFAULTS}


def _require_free(system: System, address: str) -> None:
    if not pci.exists(system, address):
        raise HelperError(errors.NOT_FOUND, f"no PCI function {address}", "are the VFs on?")
    if used := nics.busy(system, address):
        raise HelperError(errors.IN_USE, f"{address} is in use by the host", used)
