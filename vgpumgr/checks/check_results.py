"""Results of a check of a host, and the fixes they offer."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.examination import CheckOutcome, Examination, Finding

NVIDIA = "10de:"


@dataclass(frozen=True, slots=True)
class CheckFix:
    """The command of ours that mends it, and the same by hand on the host; either may be empty."""

    ours: str = ""
    by_hand: str = ""


NOTHING = CheckFix()


def ok(check: str, text: str) -> Finding:
    """The finding of a check that passed."""
    return Finding(check=check, mark=CheckOutcome.OK, text=text)


def warn(check: str, text: str, fix: CheckFix = NOTHING) -> Finding:
    """The finding of something that works, and that operators should know."""
    return Finding(
        check=check, mark=CheckOutcome.WARN, text=text, next=fix.ours, by_hand=fix.by_hand
    )


def bad(check: str, text: str, fix: CheckFix = NOTHING) -> Finding:
    """The finding of something that will not work."""
    return Finding(
        check=check, mark=CheckOutcome.BAD, text=text, next=fix.ours, by_hand=fix.by_hand
    )


def unknown(check: str, why: str) -> Finding:
    """The finding of a check whose facts could not be read."""
    return Finding(check=check, mark=CheckOutcome.UNKNOWN, text=why)


def unread(x: Examination, check: str, *parts: str) -> Finding | None:
    """*Unknown*, when one of the parts that a check needs was not read."""
    for part in parts:
        if getattr(x.seen, part) is None:
            return unknown(check, x.seen.why(part))
    return None


def bootstrap(x: Examination, role: str, by_hand: str = "") -> CheckFix:
    """``role`` of the collection mends it, too."""
    name, place = x.record.name, _place_for_root(x)
    again = f"vgpumgr host add {name} --address {place} --bootstrap   (role {role})"
    return ours(x, again, by_hand)


def _place_for_root(x: Examination) -> str:
    """The host's address for a user who may do everything there; ours may not, once set up."""
    user, at, place = x.record.address.rpartition("@")
    if not at or user == "root" or any("NOPASSWD: ALL" in each for each in x.seen.sudo_rules or ()):
        return x.record.address
    return f"ADMIN@{place}"


def ours(x: Examination, command: str, by_hand: str = "") -> CheckFix:
    """``command`` mends a real host; a simulated one is mended where it was broken."""
    simulated = x.record.address.startswith("sim://")
    return CheckFix(f"vgpumgr sim inject {x.record.name} clear" if simulated else command, by_hand)


def nvidia_gpus(x: Examination) -> tuple[str, ...]:
    """The addresses of the host's NVIDIA GPUs."""
    return tuple(gpu.device for gpu in x.facts.gpus if gpu.vendor_device.startswith(NVIDIA))
