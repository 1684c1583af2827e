"""Making a simulated host misbehave, or a guest on it tell something, in words.

``forms.py`` lists them.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.helper.dispatch import VERBS
from vgpumgr.model.errors import Conflict, NotFound, UsageError
from vgpumgr.sim import gpu_faults, guest_words, setup_faults
from vgpumgr.sim.host import SimulatedHost


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
                gpu_faults.inject(host.kernel, address, fault)
        case ["guest", name, *said]:
            with host.lock:
                guest_words.say(host.domains, name, said)
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
                setup_faults.inject(host.kernel, name)
        case ["clear"]:
            host.faults.inject(words)
            with host.lock:
                gpu_faults.clear(host.kernel)
                setup_faults.clear(host.kernel)
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
        own, gpus = host.faults.words(), gpu_faults.words(host.kernel)
        return (*own, *gpus, *setup_faults.words(host.kernel))


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
