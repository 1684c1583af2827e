"""What a probe reads of GPUs that may speak against them, and the Xids of the kernel's log."""

from __future__ import annotations

from vgpumgr.hosts.facts.typed_answer import TypedAnswer
from vgpumgr.model.health import GpuReadings, PcieLink, XidLine

# The helper tells at most 256 lines; Xids are numbers of three digits.
_MOST_LINES = 1024
_MOST_XID = 10**6
_MOST_INSTANCE = 2**16
_MOST_ACTION = 255
_MOST_LINK = 64
_MOST_REASONS = 16


def readings(device: TypedAnswer, nvml: TypedAnswer) -> GpuReadings:
    """Of one GPU, by its entries among ``devices`` and NVML's."""
    told = nvml.child("readings")
    rows, pages = told.child("rows"), told.child("pages")
    return GpuReadings(
        recovery_action=told.maybe_number("recovery_action", most=_MOST_ACTION),
        uncorrected_errors=told.maybe_number("uncorrected_errors"),
        rows_corrected=rows.maybe_number("corrected"),
        rows_uncorrected=rows.maybe_number("uncorrected"),
        row_remap_pending=rows.flag("pending"),
        row_remap_failed=rows.flag("failed"),
        pages_corrected=pages.maybe_number("corrected"),
        pages_uncorrected=pages.maybe_number("uncorrected"),
        retirement_pending=pages.flag("pending"),
        sram_exceeded=told.flag("sram_exceeded"),
        slowed=told.texts("slowed", most=_MOST_REASONS),
        width=_less(device.maybe_child("link"), "width"),
        generation=_less(told.maybe_child("link_generation"), "now"),
    )


def _less(link: TypedAnswer | None, now: str) -> PcieLink | None:
    """A link that has less than it could have."""
    if link is None:
        return None
    found = PcieLink(
        now=link.number(now, most=_MOST_LINK), most=link.number("most", most=_MOST_LINK)
    )
    return found if found.now < found.most else None


def xid_lines(probe: TypedAnswer) -> tuple[XidLine, ...]:
    """In the order of the kernel's numbers, which are of one boot."""
    found = tuple(map(_line, probe.objects("xids", most=_MOST_LINES)))
    probe.once("xids", (each.seq for each in found))
    return tuple(sorted(found, key=lambda each: each.seq))


def _line(told: TypedAnswer) -> XidLine:
    told.need("seq", "xid")
    return XidLine(
        seq=told.number("seq"),
        address=told.address("address"),
        xid=told.number("xid", most=_MOST_XID),
        instance=told.maybe_number("instance", most=_MOST_INSTANCE),
        text=told.words("text"),
    )
