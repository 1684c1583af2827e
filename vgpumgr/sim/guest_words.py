"""What a simulated guest's agent tells, in the words of ``inject``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address

from vgpumgr.model.errors import UsageError
from vgpumgr.sim.forms import FORMS
from vgpumgr.sim.libvirt.domains import SimDomains


def say(domains: SimDomains, name: str, words: Sequence[str]) -> None:
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
