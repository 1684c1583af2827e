"""The cycle of power as `serve` takes it: budgets by their bands, hot GPUs by their ladder.

It decides on each new reading of figures, and by default says what it would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from vgpumgr.engine.controller import power_loads
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind, task_event
from vgpumgr.engine.controller.cycle_context import error_line
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.desktops.user_sessions import at_work, named
from vgpumgr.engine.hosts import gpu_drain
from vgpumgr.engine.hosts.due_care import DueCare, many_out
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.inventory.planned_power import PlannedPower
from vgpumgr.engine.layouts import power_caps
from vgpumgr.engine.layouts.power_caps import GpuHold
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.health.health_policy import HealthAction, HealthMode, HealthPolicy
from vgpumgr.model.errors import LedgerError, VgpumgrError
from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.gpu_figures import Figures
from vgpumgr.model.health import ActionClass
from vgpumgr.model.host_sample import FleetSample
from vgpumgr.model.layout import UNLOCKED, ClockRange
from vgpumgr.model.operation import FINAL_TASKS
from vgpumgr.model.power import PowerCap
from vgpumgr.power.power_bands import LEAST_MHZ, CapState, HeldTo, decide
from vgpumgr.power.thermal_ladder import (
    COOL,
    TEMPERATURE,
    Heat,
    HeatState,
    Rung,
    both,
    causes,
    climb,
    held_to,
)

# No host is called so.
POWER_THREAD = "power:"
_DRAINS = (HealthAction.DRAIN, HealthAction.EVACUATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerPolicy:
    """``mode`` is whether caps are set or told. A GPU that stays hot is drained only where
    ``health`` acts, and drains GPUs that ask to be checked.
    """

    mode: HealthMode = HealthMode.DRY_RUN
    health: HealthPolicy = field(default_factory=HealthPolicy)

    @property
    def acts(self) -> bool:
        """Are caps set?"""
        return self.mode is HealthMode.ACT

    @property
    def drains(self) -> HealthAction | None:
        """How a GPU that stays hot is to be drained; None: it is not."""
        wanted = self.health.of(ActionClass.CHECK)
        return next((each for each in reversed(_DRAINS) if each in wanted), None)

    @property
    def no_drain(self) -> str:
        """Why such a drain is told and not begun; empty: it is begun."""
        if not self.acts:
            return f"power_mode is {self.mode}"
        acts = self.health.mode is HealthMode.ACT
        return "" if acts else f"health_mode is {self.health.mode}"


class PowerTask:
    """Takes the cycle, and remembers caps, rungs, and what was told."""

    def __init__(
        self,
        context: EngineContext,
        figures: Callable[[], FleetSample | None],
        policy: PowerPolicy,
        emit: Emit,
    ) -> None:
        self._context = context
        self._figures = figures
        self._policy = policy
        self._emit = emit
        self._seen = 0.0
        self._state: CapState | None = None
        self._heat: dict[str, HeatState] = {}
        self._told: dict[str, str] = {}
        self._hot_told: dict[str, str] = {}

    def take(self, lane: CycleThread) -> bool:
        """One decision, unless another controller takes it or nothing was read since."""
        sample = self._figures()
        # Another time is another reading, also an earlier one: a clock may have been put back.
        if sample is None or sample.at == self._seen:
            return False
        ledger = self._context.ledger
        if not (self._heat or _is_hot(sample) or ledger.power_budgets() or ledger.power_caps()):
            self._seen = sample.at
            return False
        if not ledger.claim(POWER_THREAD):
            return False
        try:
            own = replace(self._context, stop=lane.stop)
            return self._decide(own, sample)
        finally:
            self._seen = sample.at
            ledger.release(POWER_THREAD)

    def _decide(self, context: EngineContext, sample: FleetSample) -> bool:
        view = context.view()
        figures = power_loads.figures_of(view, sample)
        plan = PlannedPower(view)
        kinds = power_loads.classes(view, context.ledger.desktops())
        loads = power_loads.gpu_loads(view, plan, figures, kinds)
        budgets = power_loads.budget_loads(plan, loads, view, sample.meters)
        before = self._known(view)
        now = decide(budgets, loads, before)
        self._climb(view, figures)
        gpus = {gpu.id: gpu for gpu in view.gpus}
        heat = {
            gpu: cap
            for gpu, state in self._heat.items()
            if (power := gpus[gpu].facts.power) is not None
            and (cap := held_to(state, power.least_w)) is not None
        }
        wanted = both(now.caps, heat)
        if not self._policy.acts:
            self._state = CapState(calm=now.calm)
            self._intend(gpus, wanted)
            self._far_up(context, gpus)
            return False
        self._state = now
        worked = self._apply(context, view, plan, figures, wanted)
        return self._far_up(context, gpus) or worked

    def _known(self, view: LedgerView) -> CapState:
        """The state, after a start as the ledger has it: caps for a budget, rungs for heat."""
        if self._state is None:
            caps = {}
            for each in view.caps:
                clock = each.clocks[1] if each.clocks else None
                held = HeldTo(limit_w=each.limit_w, clock_mhz=clock, why=each.why)
                of_budgets, heat = causes(held)
                if of_budgets is not None:
                    caps[each.gpu] = of_budgets
                if heat != COOL:
                    self._heat.setdefault(each.gpu, heat)
            self._state = CapState(caps=caps)
        return self._state

    def _climb(self, view: LedgerView, figures: Mapping[str, Figures]) -> None:
        found: dict[str, HeatState] = {}
        for gpu in view.gpus:
            told = figures.get(gpu.id, {})
            state = climb(
                self._heat.get(gpu.id, COOL),
                told.get("temperature_gpu_c"),
                told.get("clock_sm_mhz"),
            )
            if state != COOL:
                found[gpu.id] = state
        self._heat = found

    def _intend(self, gpus: Mapping[str, GpuRecord], wanted: Mapping[str, HeldTo]) -> None:
        """Told once for as long as it is so."""
        for gpu in [each for each in self._told if each not in wanted]:
            del self._told[gpu]
        for gpu, cap in wanted.items():
            if gpu not in self._told:
                self._told[gpu] = cap.why
                text = f"{_name(gpus[gpu])} would be held to {_words(cap)} for {cap.why}"
                self._tell(gpus[gpu], f"{text}: power_mode is {HealthMode.DRY_RUN}")

    def _apply(
        self,
        context: EngineContext,
        view: LedgerView,
        plan: PlannedPower,
        figures: Mapping[str, Figures],
        wanted: Mapping[str, HeldTo],
    ) -> bool:
        """Write down, then have it so; what is lifted is forgotten once it was read back."""
        gpus = {gpu.id: gpu for gpu in view.gpus}
        declared = {each.gpu: each.goal.locked_clocks or UNLOCKED for each in view.layouts}
        known = {each.gpu: each for each in view.caps}
        holds: dict[str, GpuHold] = {}
        for gpu, cap in wanted.items():
            record = self._record(gpus[gpu], cap, declared.get(gpu, UNLOCKED), known.get(gpu))
            was = known.get(gpu)
            if was != record:
                context.ledger.set_power_cap(record)
            if was != record or _has_slipped(record, figures.get(gpu, {})):
                lower = record.limit_w if record.limit_w is not None else plan.watts(gpu)
                clocks = record.clocks if record.clocks else declared.get(gpu, UNLOCKED)
                holds[gpu] = GpuHold(limit_w=lower, clocks=clocks)
        lifted = [gpu for gpu in known if gpu not in wanted]
        for gpu in lifted:
            if gpu in gpus and gpus[gpu].facts.power is not None:
                clocks = declared.get(gpu, UNLOCKED)
                holds[gpu] = GpuHold(limit_w=plan.watts(gpu), clocks=clocks)
        done = self._hold(context, holds)
        for gpu in lifted:
            if gpu in done or gpu not in holds:
                context.ledger.lift_power_cap(gpu)
        for gpu in done:
            held = wanted.get(gpu)
            what = f"is held to {_words(held)} for {held.why}" if held else "is held no more"
            self._tell(gpus[gpu], f"{_name(gpus[gpu])} {what}")
        return bool(done)

    def _record(
        self, gpu: GpuRecord, cap: HeldTo, declared: ClockRange, was: PowerCap | None
    ) -> PowerCap:
        clocks = None
        if cap.clock_mhz is not None:
            most = min(cap.clock_mhz, declared[1]) if declared else cap.clock_mhz
            clocks = (min(LEAST_MHZ, most), most)
        since = was.since if was is not None else round(self._context.clock.now(), 3)
        return PowerCap(
            gpu=gpu.id,
            host=gpu.host,
            limit_w=cap.limit_w,
            clocks=clocks,
            why=cap.why,
            since=since,
        )

    def _hold(self, context: EngineContext, holds: Mapping[str, GpuHold]) -> frozenset[str]:
        if not holds:
            return frozenset()
        try:
            outcome, done = power_caps.apply(context, holds)
        except LedgerError:
            raise
        except VgpumgrError as error:
            self._fail("", error_line(error), error.next)
            return frozenset()
        for each in outcome.vms:
            if each.error is not None:
                text = f"{each.vm} on {each.host}: {error_line(each.error)}"
                self._fail(each.host, text, each.error.next)
        return done

    def _far_up(self, context: EngineContext, gpus: Mapping[str, GpuRecord]) -> bool:
        """GPUs that stay hot take no new VM, and then lose the VMs on them; where many are out at
        the same time, the cooling is at fault, and VMs stay. What is not done is told once.
        """
        worked = False
        self._hot_told = {key: text for key, text in self._hot_told.items() if key in self._heat}
        for gpu, state in self._heat.items():
            record = gpus[gpu]
            if state.rung >= Rung.CORDON and record.state is GpuState.HEALTHY and self._policy.acts:
                context.ledger.quarantine(gpu, f"{TEMPERATURE}: it stays hot while it is held")
                self._tell(record, f"{_name(record)} is quarantined: it stays hot while it is held")
                worked = True
            if state.rung is Rung.DRAIN:
                worked = self._leave(context, record, many_out(gpus.values())) or worked
        return worked

    def _leave(self, context: EngineContext, gpu: GpuRecord, out: str) -> bool:
        """Move the VMs off a GPU that stays hot, where the policy says so; users keep sessions."""
        how = self._policy.drains
        vms = gpu_drain.holders(context, gpu) if how is not None else ()
        if how is None or not vms:
            return False
        if held_back := self._policy.no_drain or out:
            users = at_work(context.ledger, context.view())
            there = [users[vm.id] for vm in vms if vm.id in users]
            on_it = f"; at work: {named(there)}" if there else ""
            would = f"{_name(gpu)} would {DueCare(gpu, how, vms).words}{on_it}"
            self._tell_hot(gpu, f"{would}: it stays hot, but {held_back}")
            return False
        report = gpu_drain.step(context, gpu, cold=how is HealthAction.EVACUATE)
        for each in report.outcome.vms:
            self._emit(task_event(each, ended=each.state in FINAL_TASKS))
        staying = [f"{choice.vm.name} stays: {choice.why}" for choice in report.staying]
        if staying:
            self._tell_hot(gpu, f"{_name(gpu)} stays hot; {'; '.join(staying)}")
        return bool(report.outcome.done)

    def _tell_hot(self, gpu: GpuRecord, text: str) -> None:
        """Once for as long as it is so."""
        if self._hot_told.get(gpu.id) != text:
            self._hot_told[gpu.id] = text
            self._tell(gpu, text)

    def _tell(self, gpu: GpuRecord, text: str) -> None:
        self._emit(
            ControllerEvent(
                kind=EventKind.POWER,
                host=gpu.host,
                gpu=gpu.id,
                text=text,
                next="vgpumgr power list",
            )
        )

    def _fail(self, host: str, text: str, next: str) -> None:
        self._emit(ControllerEvent(kind=EventKind.POWER, host=host, text=text, next=next))


def _is_hot(sample: FleetSample) -> bool:
    return any(
        gpu.figures.get("temperature_gpu_c", 0) >= Heat().hot_c
        for host in sample.hosts
        if host.figures is not None
        for gpu in host.figures.gpus
    )


def _has_slipped(cap: PowerCap, figures: Figures) -> bool:
    """Is another limit enforced than was set? A reboot forgets it."""
    enforced = figures.get("limit_enforced_mw")
    return cap.limit_w is not None and enforced is not None and enforced // 1000 > cap.limit_w


def _words(cap: HeldTo) -> str:
    limit = f"{cap.limit_w} W" if cap.limit_w is not None else ""
    clock = f"{cap.clock_mhz} MHz" if cap.clock_mhz is not None else ""
    return " and ".join(filter(None, (limit, clock)))


def _name(gpu: GpuRecord) -> str:
    return f"{gpu.facts.model} {gpu.facts.device} on {gpu.host}"
