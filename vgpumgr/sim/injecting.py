"""Making a simulated host misbehave, or a guest on it tell something, in words.

``control.inject`` lists their forms.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.helper.dispatch import VERBS
from vgpumgr.model.errors import UsageError
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
