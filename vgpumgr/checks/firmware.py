"""Did the firmware leave the GPUs usable?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpumgr.checks.answers import Fix, bad, nvidia_gpus, ok, unknown, unread, warn
from vgpumgr.model.examined import Bar, Examination, Finding
from vgpumgr.model.gpu import GpuFacts

# include/linux/ioport.h
_MEMORY, _UNSET = 0x200, 0x20000000
_OWN, _OF_VFS = slice(0, 6), slice(7, 13)


def firmware(x: Examination) -> Finding:
    """How the host booted, and whether Secure Boot keeps NVIDIA's driver out."""
    check = "firmware"
    missing = unread(x, check, "uefi", "secure_boot")
    if missing is not None:
        return missing
    if not x.seen.secure_boot:
        return ok(check, "UEFI, Secure Boot off" if x.seen.uefi else "BIOS")
    idle = [gpu.device for gpu in x.facts.gpus if gpu.driver is None]
    if nvidia_gpus(x) and idle and "nvidia" not in (x.seen.modules or ()):
        return warn(
            check,
            "Secure Boot is on and NVIDIA's driver is not loaded: is it signed?",
            Fix(by_hand="mokutil --import KEY, and sign the driver with it; or Secure Boot off"),
        )
    return ok(check, "UEFI, Secure Boot on")


def bars(x: Examination) -> Finding:
    """Every GPU's memory windows, and those of its VFs, have addresses."""
    check = "bars"
    unplaced, unread_ones = [], []
    for gpu in x.facts.gpus:
        lines = x.seen.bars.get(gpu.device)
        if gpu.address is not None and lines is None:
            unread_ones.append(gpu.device)
        unplaced += [f"{gpu.device}: {what}" for what in _unplaced(gpu, lines or ())]
    if unplaced:
        by_hand = (
            "enable 'Above 4G decoding' and SR-IOV in the firmware's setup, "
            "or add pci=realloc to the kernel line, then reboot"
        )
        return bad(check, f"without addresses: {'; '.join(unplaced)}", Fix(by_hand=by_hand))
    if unread_ones:
        part = "bars" if not x.seen.bars else f"bars {unread_ones[0]}"
        return unknown(check, f"{', '.join(unread_ones)}: {x.seen.why(part)}")
    return ok(check, "all placed")


def _unplaced(gpu: GpuFacts, lines: Sequence[Bar]) -> Iterator[str]:
    """A window that got no place keeps its size, or reads zero (setup-bus.c, reset_resource)."""
    if not lines:
        return
    own, of_vfs = lines[_OWN], lines[_OF_VFS]
    failed = [number for number, bar in enumerate(own) if _failed(bar)]
    if failed or not any(bar.start for bar in own):
        yield f"BAR {', '.join(map(str, failed))}" if failed else "all BARs"
    if gpu.sriov_total and of_vfs and (any(map(_failed, of_vfs)) or not _any_placed(of_vfs)):
        yield "the BARs of its VFs"


def _any_placed(bars: Sequence[Bar]) -> bool:
    return any(bar.start for bar in bars)


def _failed(bar: Bar) -> bool:
    return bool(bar.flags & _UNSET or (bar.flags & _MEMORY and not bar.start and bar.end))
