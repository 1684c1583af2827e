"""What the readings of a GPU say against it at this look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vgpumgr import catalog
from vgpumgr.model.gpu import GpuFacts, GpuHealth
from vgpumgr.model.health import ActionClass, GpuReadings, PcieLink

# NVIDIA's DCGM fails a board with this number of remapped rows, or of retired pages
# (common/DcgmGPUHardwareLimits.h).
MOST_ROWS, MOST_PAGES = 512, 63
# What lowers clocks although nothing is wrong with the work: temperature and the power supply.
_SLOWING = {
    "hw-thermal": "its hardware lowers its clocks because of its temperature",
    "power-brake": "its power supply lowers its clocks",
}


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that speaks against a GPU, by its lasting name, and what it asks for."""

    name: str
    asks: ActionClass
    text: str


def standing(facts: GpuFacts) -> tuple[Signal, ...]:
    """All that speaks against the GPU now, each name once; none of a GPU that cannot be asked."""
    return tuple({each.name: each for each in _signals(facts)}.values())


def _signals(facts: GpuFacts) -> Iterator[Signal]:
    read, detail = facts.readings, facts.health_detail
    if facts.health is GpuHealth.LOST:
        yield Signal("lost", ActionClass.LOST, _with("it fell off the bus", detail))
    elif facts.health is GpuHealth.UNKNOWN and detail:
        yield Signal("unread", ActionClass.UNREAD, _with("its health is unknown", detail))
    yield from _memory(facts)
    yield from _recovery(read)
    yield from _around(read)
    if facts.health is GpuHealth.RESET_REQUIRED and not _explains_reset(read):
        yield Signal("reset-required", ActionClass.RESET, _with("it needs a reset", detail))


def _memory(facts: GpuFacts) -> Iterator[Signal]:
    read, replace = facts.readings, ActionClass.REPLACE
    if read.row_remap_failed or facts.health is GpuHealth.FAILED:
        yield Signal("row-remap-failed", replace, "a memory row could not be remapped")
    if read.sram_exceeded:
        text = "its SRAM has more uncorrectable errors than NVIDIA allows"
        yield Signal("sram-errors", replace, text)
    if (read.rows_uncorrected or 0) >= MOST_ROWS:
        yield Signal("rows-remapped", replace, f"{read.rows_uncorrected} memory rows were remapped")
    pages = (read.pages_corrected or 0) + (read.pages_uncorrected or 0)
    if pages >= MOST_PAGES:
        yield Signal("pages-retired", replace, f"{pages} memory pages were retired")
    waiting = ActionClass.RESET_WHEN_IDLE
    if read.row_remap_pending:
        yield Signal("row-remap-pending", waiting, "remapped memory rows wait for a reset")
    if read.retirement_pending:
        yield Signal("retirement-pending", waiting, "retired memory pages wait for a reset")
    if read.uncorrected_errors:
        text = f"{read.uncorrected_errors} uncorrected memory errors since its last reset"
        yield Signal("uncorrected-errors", ActionClass.CHECK, text)


def _recovery(read: GpuReadings) -> Iterator[Signal]:
    if not read.recovery_action:
        return
    known = catalog.recovery_actions().get(read.recovery_action)
    if known is None:
        text = f"the driver asks for recovery action {read.recovery_action}"
        yield Signal("recovery-action", ActionClass.UNREAD, text)
    else:
        yield Signal("recovery-action", known.action_class, known.words)


def _around(read: GpuReadings) -> Iterator[Signal]:
    """What is around the GPU: heat, power, its slot."""
    for reason in read.slowed:
        if reason in _SLOWING:
            yield Signal(f"slowed-{reason}", ActionClass.CHECK, _SLOWING[reason])
    if read.width is not None:
        yield Signal(
            "pcie-width", ActionClass.CHECK, _link(read.width, "its PCIe link is x{} of x{}")
        )
    if read.generation is not None:
        words = "its PCIe link is generation {} of {}"
        yield Signal("pcie-generation", ActionClass.CHECK, _link(read.generation, words))


def _link(link: PcieLink, words: str) -> str:
    return words.format(link.now, link.most)


def _explains_reset(read: GpuReadings) -> bool:
    waits = read.row_remap_pending or read.retirement_pending or read.row_remap_failed
    return bool(waits or read.recovery_action)


def _with(words: str, detail: str) -> str:
    return f"{words}: {detail}" if detail else words
