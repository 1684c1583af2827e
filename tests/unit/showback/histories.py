"""Histories of use, made up: GPUs in and out of the fleet, and what VMs held of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st

from vgpumgr.model.showback import (
    FOREVER,
    GpuPresence,
    HeldRows,
    Span,
    UsageHistory,
    UsageKey,
)

SECOND = 1_000_000
UNITS = (1, 3, 4, 48)
MODELS = ("A40", "T4")


@dataclass(frozen=True, slots=True)
class Held:
    """A row: the VM, what it held of which GPU, and when (seconds)."""

    vm: str
    gpu: str
    slots: tuple[int, ...] | None
    since: float
    until: float | None = None
    tenant: str = "red"
    profile: str = "A40-8Q"


def rows_of(held: list[Held]) -> HeldRows:
    """As the ledger tells them."""
    shapes = list(dict.fromkeys(each.slots for each in held))
    return HeldRows(
        vm_ids=[f"id-{each.vm}" for each in held],
        vms=[each.vm for each in held],
        tenants=[each.tenant for each in held],
        gpus=[each.gpu for each in held],
        profiles=[each.profile for each in held],
        shapes=shapes,
        shape_of=[shapes.index(each.slots) for each in held],
        since=[each.since for each in held],
        until=[each.until for each in held],
    )


def gpu(
    name: str = "g1", units: int = 4, model: str = "A40", *present: tuple[float, float]
) -> GpuPresence:
    """A GPU that was there at these times (seconds); always without any."""
    spans = tuple(Span(round(a * SECOND), round(b * SECOND)) for a, b in present)
    always = (Span(0, FOREVER),)
    return GpuPresence(gpu=name, model=model, units=units, present=spans or always)


def history(held: list[Held], *gpus: GpuPresence, **pools: str) -> UsageHistory:
    """Those rows and GPUs; ``pools`` of VMs by their names."""
    named = {f"id-{vm}": pool for vm, pool in pools.items()}
    return UsageHistory(held=rows_of(held), gpus=gpus or (gpu(),), pools=named)


_TIMES = st.integers(0, 40).map(lambda each: each * 0.5)


@st.composite
def _presence(draw: st.DrawFn, number: int) -> GpuPresence:
    times = sorted(draw(st.sets(_TIMES, min_size=1, max_size=4)))
    spans = list(zip(times[::2], times[1::2], strict=False))
    if len(times) % 2:
        spans.append((times[-1], FOREVER / SECOND))
    units, model = draw(st.sampled_from(UNITS)), draw(st.sampled_from(MODELS))
    return gpu(f"g{number}", units, model, *spans)


@st.composite
def _held(draw: st.DrawFn, gpus: tuple[GpuPresence, ...]) -> Held:
    on = draw(st.sampled_from(gpus))
    some = st.sets(st.integers(0, on.units - 1), max_size=3).map(lambda each: tuple(sorted(each)))
    vm = draw(st.sampled_from("abcde"))
    return Held(
        vm=vm,
        gpu=on.gpu,
        slots=draw(st.none() | some),
        since=draw(_TIMES),
        until=draw(st.none() | _TIMES),
        tenant="red" if vm < "c" else "blue",
        profile=draw(st.sampled_from(("A40-8Q", "A40-4Q"))),
    )


@st.composite
def histories(draw: st.DrawFn) -> UsageHistory:
    """Any: what was held may overlap, or end before it began, or be held of a missing GPU."""
    gpus = tuple(draw(_presence(number)) for number in range(draw(st.integers(1, 3))))
    held = draw(st.lists(_held(gpus), max_size=8))
    pools = {f"id-{each}": "desks" for each in draw(st.sets(st.sampled_from("abcde")))}
    return UsageHistory(held=rows_of(held), gpus=gpus, pools=pools)


def expected(found: UsageHistory, span: Span) -> dict[tuple[str, str], Fraction]:
    """GPU time by VM (its id) and model, slot by slot; '' is what was idle."""
    rows, units = found.held, {each.gpu: each.units for each in found.gpus}
    model = {each.gpu: each.model for each in found.gpus}
    free: dict[tuple[str, int], int] = defaultdict(int)
    taken: dict[tuple[str, int], list[tuple[str, Span]]] = defaultdict(list)
    for at in sorted(range(len(rows)), key=lambda at: rows.since[at]):
        on, shape = rows.gpus[at], rows.shapes[rows.shape_of[at]]
        end = rows.until[at]
        for slot in range(units[on]) if shape is None else shape:
            since = max(round(rows.since[at] * SECOND), free[on, slot])
            until = max(since, FOREVER if end is None else round(end * SECOND))
            free[on, slot] = until
            taken[on, slot].append((rows.vm_ids[at], Span(since, until)))
    times: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for each in found.gpus:
        for slot in range(each.units):
            for vm, held in taken[each.gpu, slot]:
                times[vm, model[each.gpu]] += Fraction(held.within(span).long, each.units)
            for there in each.present:
                inside = there.within(span)
                used = sum(held.within(inside).long for _, held in taken[each.gpu, slot])
                times["", model[each.gpu]] += Fraction(inside.long - used, each.units)
    return {key: time for key, time in times.items() if time}


def by_vm(key: UsageKey | None) -> str:
    """The VM's id, or '' for what was idle."""
    return key.vm_id if key else ""
