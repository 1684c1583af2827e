"""Whether a guest's CPU runs on a simulated host, as far as libvirt would tell."""

from __future__ import annotations

from vgpumgr.model.simulated import SimHost
from vgpumgr.sim.libvirt.needs import Needs

# Emulated models run everywhere.
_ANYWHERE = frozenset({"qemu64", "qemu32", "kvm64", "kvm32"})


def fits(host: SimHost, needs: Needs) -> bool | None:
    """None for a mode that takes the host's own CPU, and without ``<cpu>``.

    The simulation knows families by libvirt's word before the dash (``EPYC-Milan``) and no more.
    """
    if needs.cpu_mode != "custom" or not needs.cpu_model:
        return None
    family = needs.cpu_model.partition("-")[0]
    return needs.cpu_model in _ANYWHERE or family.lower() in host.cpu_model.lower()


def guest_notices(needs: Needs, here: SimHost, cpu_model: str) -> bool:
    """Would a guest that comes from a host with that CPU miss what it had?"""
    if needs.cpu_mode == "custom":
        return fits(here, needs) is False
    return needs.kvm and here.cpu_model != cpu_model
