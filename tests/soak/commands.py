"""The rules for commands: each may be struck at any point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.simworld import vm
from tests.soak.life import Life, Wanted
from tests.soak.model import NAMES, NOBODY, State, States, Vm
from tests.soak.plots import HOSTS
from tests.soak.strikes import Kind, Strike
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_devices import DiskSpec

_strikes = st.none() | st.builds(
    Strike, kind=st.sampled_from(Kind), at=st.integers(1, 24), after=st.booleans()
)
_name = st.sampled_from(NAMES)
_names = st.lists(_name, min_size=1, max_size=3, unique=True)
_name_or_nobody = st.sampled_from([*NAMES, NOBODY])
_host = st.sampled_from(HOSTS)
_small = st.integers(0, 5)


class Commands(Life):
    """What operators type."""

    @rule(names=_names, kind=_small, cpus=st.integers(1, 2), strike=_strikes, partial=st.booleans())
    def apply_some(
        self, names: list[str], kind: int, cpus: int, strike: Strike | None, partial: bool
    ) -> None:
        self._apply(names, kind, cpus, strike, partial=partial)

    def _apply(
        self, names: list[str], kind: int, cpus: int, strike: Strike | None, *, partial: bool
    ) -> None:
        specs = [self._spec(name, kind + n, cpus) for n, name in enumerate(names)]
        cordoned = {each.name for each in self._field.world.ledger.hosts() if each.cordoned}
        known = {each.name for each in self._field.world.ledger.vms()}

        def act(engine: Engine) -> None:
            plan, outcome = engine.apply(specs, partial=partial, restart=True)
            outcome.raise_for_failure()
            if plan.unplaced:  # what was left out is told
                engine.apply(specs, restart=True)[1].raise_for_failure()

        wanted = {spec.name: self._applied(spec) for spec in specs}
        self._command("apply", act, wanted, strike, calmed=set(names) - known)
        for each in self._field.world.ledger.vms():
            if each.name not in known and each.name in names:
                assert each.host not in cordoned, f"{each.name} is on a cordoned host"

    @rule(name=_name, kind=_small, strike=_strikes)
    def create(self, name: str, kind: int, strike: Strike | None) -> None:
        self._apply([name], kind, 1, strike, partial=False)

    @precondition(lambda self: self.there)
    @rule(names=_names, force=st.booleans(), strike=_strikes)
    def delete(self, names: list[str], force: bool, strike: Strike | None) -> None:
        names = list(dict.fromkeys(map(self._known, names)))

        def act(engine: Engine) -> None:
            engine.delete(names, keep_disks=False, force=force).raise_for_failure()

        wanted: Wanted = dict.fromkeys(names, (None,))
        if not self._command("delete", act, wanted, strike, calmed=names):
            self._field.undefined -= set(names)

    @precondition(lambda self: self.there)
    @rule(
        name=_name_or_nobody,
        verb=st.sampled_from(["start", "stop", "stop hard", "reboot"]),
        strike=_strikes,
    )
    def power(self, name: str, verb: str, strike: Strike | None) -> None:
        name = self._known(name)

        def act(engine: Engine) -> None:
            if verb == "start":
                outcome = engine.start([name])
            elif verb == "reboot":
                outcome = engine.reboot([name], force=False)
            else:
                outcome = engine.stop_vms([name], force=verb == "stop hard", timeout_s=2)
            outcome.raise_for_failure()

        found = self._field.model.present(name)
        wanted: States = tuple(
            each if verb == "reboot" else replace(each, running=verb == "start") for each in found
        )
        calmed = () if verb == "reboot" else (name,)
        if not self._command(verb, act, {name: wanted}, strike, calmed) and verb == "start":
            self._field.undefined.discard(name)

    @precondition(lambda self: self.there)
    @rule(name=_name_or_nobody, to=_host, cold=st.booleans(), strike=_strikes)
    def migrate(self, name: str, to: str, cold: bool, strike: Strike | None) -> None:
        name = self._known(name)

        def act(engine: Engine) -> None:
            engine.migrate(name, to, cold=cold).raise_for_failure()

        found = self._field.model.present(name)
        wanted: States = tuple(replace(each, host=to) for each in found)
        self._command("migrate", act, {name: wanted}, strike)

    @precondition(lambda self: self.field is not None and self.field.plot.layout is not None)
    @rule(host=_host, choice=_small, strike=_strikes)
    def layout(self, host: str, choice: int, strike: Strike | None) -> None:
        plot = self._field.plot
        assert plot.layout is not None
        goal = (plot.layout, *plot.others)[choice % (1 + len(plot.others))]
        spec = plot.spec((host,), goal)

        def act(engine: Engine) -> None:
            engine.layout_apply([spec])[1].raise_for_failure()

        self._command("layout", act, {}, strike)

    @precondition(lambda self: self.field is not None and self.field.books.waiting)
    @rule(choice=_small, back=st.booleans(), strike=_strikes)
    def finish(self, choice: int, back: bool, strike: Strike | None) -> None:
        """Resume or undo one of the operations that were cut."""
        books = self._field.books
        operation = books.waiting[choice % len(books.waiting)].id
        left = (*books.unfinished, *books.refused)
        tasks = [task for task in left if task.operation == operation]
        for task in (task for task in tasks if task.vm in NAMES):
            states = self._led_to(task.vm, task.verb)
            self._field.model.ended(task.vm, states, well=False)
            self._field.shaken.add(task.vm)

        def act(engine: Engine) -> None:
            way = engine.undo if back else engine.resume
            way(operation).raise_for_failure()

        self._command("undo" if back else "resume", act, {}, strike)

    @rule(drift=st.booleans(), host=_host, strike=_strikes)
    def look(self, drift: bool, host: str, strike: Strike | None) -> None:
        """Probe, or compare: nothing changes."""

        def act(engine: Engine) -> None:
            if drift:
                engine.drift()
            else:
                engine.refresh([host])

        self._command("drift" if drift else "probe", act, {}, strike)

    @precondition(lambda self: self.last)
    @rule(strike=_strikes)
    def again(self, strike: Strike | None) -> None:
        """The same command, typed once more."""
        assert self.last is not None
        act, wanted = self.last
        for name, states in wanted.items():
            self._field.model.ended(name, states, well=False)
        self._command("again", act, {}, strike)
        self._field.shaken |= set(wanted)

    def _spec(self, name: str, kind: int, cpus: int) -> VmSpec:
        """A new one, or what is there with another number of CPUs."""
        known = self._field.model.last_spec(name)
        if known is not None:
            return replace(known, vcpus=cpus)
        profile = self._field.plot.profiles[kind % len(self._field.plot.profiles)]
        disks = (DiskSpec(size_bytes=1 << 20),) if kind % 2 else ()
        return vm(name, profile, vcpus=cpus, disks=disks, autostart=kind % 3 == 0)

    def _applied(self, spec: VmSpec) -> States:
        return tuple(
            Vm(spec, running=True) if each is None else replace(each, spec=spec)
            for each in self._field.model.possible[spec.name]
        )

    def _led_to(self, name: str, verb: str) -> States:
        """What going on with a task, or taking it back, may make of the VM."""
        there = list(self._field.model.present(name))
        ends: dict[str, Sequence[State]] = {
            "create": [None, *there],
            "delete": [None],
            "migrate": [replace(each, host=None) for each in there],
            "start": [replace(each, running=True) for each in there],
            "stop": [replace(each, running=False) for each in there],
        }
        return tuple(ends.get(verb, there))
