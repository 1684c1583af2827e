"""Steps on VFs of NICs: claimed for a VM, released, and read back once its guest has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpumgr.engine.steps.domain_steps import state_of
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.domain import OFF
from vgpumgr.model.errors import Conflict, HostRefused
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True, kw_only=True)
class NicFunction:
    """A VF as a VM has it. ``mac`` and ``vlan`` (0: none) are set by libvirt, the rest by us."""

    address: str
    mac: str = ""
    vlan: int = 0
    trust: bool = False
    spoof_check: bool = True

    @property
    def ours(self) -> dict[str, object]:
        """What the helper sets."""
        return {"trust": self.trust, "spoof_check": self.spoof_check}


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeNicFunction(Step):
    """Claim a VF, with trust and spoof check; ``before`` is how the VM had it already, None: it
    did not.
    """

    name: str
    vm_id: str
    function: NicFunction
    before: NicFunction | None = None

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"take VF {self.function.address} for {self.name}"

    def look(self, host: Host) -> Observed:
        """Is it ours, as it is to be?"""
        seen = _look(host, self.function.address)
        if not seen.get("exists"):
            return Differs(f"there is no VF {self.function.address}")
        owner = _owner(seen)
        if owner not in {None, self.vm_id}:
            raise Conflict(
                f"VF {self.function.address} on {host.name} is claimed for another VM",
                why=f"its claim names {owner}",
                next=f"vgpumgr host probe {host.name}",
            )
        if owner is None:
            return Differs(f"VF {self.function.address} is not claimed")
        return _compared(seen, self.function.ours)

    def act(self, host: Host, clock: Clock) -> None:
        """Claim and set it; the helper reads back before it answers."""
        _take(host, self.name, self.vm_id, self.function)

    def undo(self, host: Host) -> None:
        """As it was before; a VF that carries no claim of this VM is left alone."""
        if _owner(_look(host, self.function.address)) != self.vm_id:
            return
        if self.before is not None:
            _take(host, self.name, self.vm_id, self.before)
        else:
            _release(host, self.name, self.vm_id, self.function.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseNicFunction(Step):
    """Release a VF, after its VM is off."""

    name: str
    vm_id: str
    address: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"release VF {self.address} of {self.name}"

    def look(self, host: Host) -> Observed:
        """Is it free of our claim?"""
        held = _owner(_look(host, self.address)) == self.vm_id
        return Differs(f"VF {self.address} is still claimed") if held else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Release it; the helper sets it back as a new VF is."""
        _release(host, self.name, self.vm_id, self.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameNicClaims(Step):
    """Have the claims of a VM's VFs name it as it is called now."""

    name: str
    old_name: str
    vm_id: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"claim the VFs of {self.old_name} for {self.name}"

    def look(self, host: Host) -> Observed:
        """Do all of them name it so?"""
        found = host.helper.call("claims", {}).get("claims")
        claims = found if isinstance(found, list) else []
        mine = [str(each["vm"]) for each in claims if each["allocation"] == self.vm_id]
        other = [each for each in mine if each != self.name]
        return Differs(f"they are claimed for {other[0]}") if other else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Rewrite them; one that a host lost comes back as the VM is started."""
        host.helper.call("claim_rename", {"claim": _claim(self.name, self.vm_id)})

    def undo(self, host: Host) -> None:
        """Have them name it as before."""
        host.helper.call("claim_rename", {"claim": _claim(self.old_name, self.vm_id)})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckNicFunctions(Step):
    """See that the PFs have for the VFs of a running guest what its file asks for: MAC address and
    VLAN, which libvirt sets, trust and spoof check.
    """

    name: str
    vm_id: str
    functions: tuple[NicFunction, ...]

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"read the VFs of {self.name} back"

    def look(self, host: Host) -> Observed:
        """A guest that is off again has none of it to be compared."""
        if state_of(host, self.name, self.vm_id) in OFF:
            return InState()
        for each in self.functions:
            wanted = {"mac": each.mac, "vlan": each.vlan, **each.ours}
            found = _compared(_look(host, each.address), wanted)
            if isinstance(found, Differs):
                return Differs(f"VF {each.address}: {found.what}")
        return InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Nothing is set here: what is not as it should be was refused by the NIC's driver."""
        seen = self.look(host)
        if isinstance(seen, Differs):
            raise HostRefused(
                f"a NIC of {self.name} is not as its file asks for on {host.name}",
                why=seen.what,
                next=f"on {host.name}: dmesg (the NIC's driver says why), ip link",
            )

    def undo(self, host: Host) -> None:
        """Nothing was changed."""


def _look(host: Host, address: str) -> Mapping[str, object]:
    return host.helper.call("nic_vf_look", {"address": address})


def _owner(seen: Mapping[str, object]) -> object:
    claim = seen.get("claim")
    return claim.get("allocation") if isinstance(claim, Mapping) else None


def _compared(seen: Mapping[str, object], wanted: Mapping[str, object]) -> Observed:
    for name, value in wanted.items():
        found = seen.get(name)
        if found != value:
            return Differs(f"{_WORDS[name]} is {_shown(found)}, should be {_shown(value)}")
    return InState()


_WORDS = {"mac": "MAC address", "vlan": "VLAN", "trust": "trust", "spoof_check": "spoof check"}


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "not told" if value is None else str(value)


def _claim(name: str, vm_id: str) -> dict[str, object]:
    """A VF is the VM's own for as long as it has it: the claim is by the VM's id."""
    return {"allocation": vm_id, "generation": 1, "vm": name}


def _take(host: Host, name: str, vm_id: str, function: NicFunction) -> None:
    asked = {"address": function.address, "claim": _claim(name, vm_id), **function.ours}
    host.helper.call("nic_vf_take", asked)


def _release(host: Host, name: str, vm_id: str, address: str) -> None:
    host.helper.call("nic_vf_release", {"address": address, "claim": _claim(name, vm_id)})
