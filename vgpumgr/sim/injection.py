"""Injection of faults into a simulated host or its guests' agents, by words of ``sim inject``.

``fault_forms.py`` lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address

from vgpumgr.helper.dispatch import VERBS
from vgpumgr.model.errors import Conflict, NotFound, UsageError
from vgpumgr.sim import device_faults
from vgpumgr.sim.fault_forms import FORMS
from vgpumgr.sim.libvirt.sim_domains import SimDomains
from vgpumgr.sim.simulated_host import SimulatedHost


def set_agent_words(domains: SimDomains, name: str, words: Sequence[str]) -> None:
    """From now until the guest ends; UsageError names the forms, or says that it does not run."""
    domain = domains.find(name)
    if domain is None or domain.running is None:
        raise UsageError(f"no guest {name} runs", next="vgpumgr vm list")
    match list(words):
        case ["users", count] if count.isdecimal():
            domain.guest = replace(domain.guest, users=int(count))
        case ["address", text] if _is_address(text):
            known = domain.guest.addresses
            domain.guest = replace(domain.guest, addresses=(*known, text))
        case _:
            raise UsageError(
                f"{' '.join(words)!r} is not something that a guest reports", next=FORMS
            )


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def inject(host: SimulatedHost, words: Sequence[str]) -> None:
    """Set a fault, or reboot. Waits for the call that the host is doing, never for a hang."""
    match list(words):
        case ["reboot"]:
            with host.lock:
                host.reboot()
        case ["off"]:
            with host.lock:
                host.power_off()
        case ["on"]:
            with host.lock:
                host.power_on()
        case ["gpu", address, *fault]:
            with host.lock:
                device_faults.inject_gpu(host.kernel, address, fault)
        case ["guest", name, *said]:
            with host.lock:
                set_agent_words(host.domains, name, said)
        case ["destroy", name]:
            with host.lock:
                _known(host, name)
                host.domains.destroy(name)
        case ["undefine", name]:
            with host.lock:
                _known(host, name)
                host.domains.undefine(name)
        case ["remove-mdev", uuid]:
            with host.lock:
                _remove_mdev(host, uuid)
        case ["setup", name]:
            with host.lock:
                device_faults.inject_setup(host.kernel, name)
        case ["clear"]:
            host.faults.inject(words)
            with host.lock:
                device_faults.clear_gpus(host.kernel)
                device_faults.clear_setup(host.kernel)
        case ["refuse" | "lie", verb, *_]:
            _check_verb(host, verb)
            host.faults.inject(words)
        case _:
            host.faults.inject(words)


def _known(host: SimulatedHost, name: str) -> None:
    names = [each.name for each in host.domains.list()]
    if name not in names:
        raise NotFound(
            f"{host.host.name} has no domain {name}",
            why=f"it has: {', '.join(names) or 'none'}",
            next="vgpumgr vm list",
        )


def _remove_mdev(host: SimulatedHost, uuid: str) -> None:
    """As `mdevctl stop` does it; the kernel waits for a guest that has it, we refuse."""
    there = host.kernel.mdevs.devices
    if uuid not in there:
        raise NotFound(
            f"{host.host.name} has no mdev {uuid}",
            why=f"it has: {', '.join(there) or 'none'}",
            next="vgpumgr allocation list",
        )
    try:
        host.kernel.mdevs.remove(uuid)
    except OSError as error:
        raise Conflict(
            f"mdev {uuid} is not removed",
            why=error.strerror or str(error),
            next="stop the guest that has it, then the same command again",
        ) from error


def fault_words(host: SimulatedHost) -> tuple[str, ...]:
    """What is wrong with the host and its GPUs, in the words of :func:`inject`."""
    with host.lock:
        own, gpus = host.faults.words(), device_faults.gpu_words(host.kernel)
        return (*own, *gpus, *device_faults.setup_words(host.kernel))


def _check_verb(host: SimulatedHost, verb: str) -> None:
    dotted = (
        f"{name}.{method}"
        for name, part in host.parts().items()
        for method in dir(part)
        if not method.startswith("_")
    )
    known = [*VERBS, *dotted]
    if verb not in known:
        raise UsageError(f"no verb {verb!r}", next=f"one of: {', '.join(known)}")
