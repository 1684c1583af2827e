"""The cheapest changes that make a request fit. Nothing is said that was not tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from vgpumgr.model.explanation import Change
from vgpumgr.model.placement import Fleet, Placed
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.demand import Demand
from vgpumgr.placement.fit import find_fit
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.state import FleetState, HostState
from vgpumgr.placement.taking import commit
from vgpumgr.placement.whatif.alternative import RANK, WISHES, Alternative, Kind
from vgpumgr.placement.whatif.easier import easier

Ways = Callable[[], Iterable[Iterable[Alternative]]]

_POLICY = PlacementPolicy.BREADTH_FIRST
"""Whether something fits does not depend on it."""


def suggest(
    fleet: Fleet,
    request: VmSpec,
    ways: Ways = tuple,
    *,
    taken: Sequence[Placed] = (),
) -> tuple[Change, ...]:
    """One change of each kind that alone makes ``request`` fit, the cheapest first.

    Tried are requests that ask for less, on the fleet as it is, and the request itself on the
    hosts of ``ways``: alternatives of one kind each, the cheapest first, asked for as long as they
    are needed. A VM that would have to stop may also move to where it fits now. Where none of that
    helps, each way is tried with one wish less. ``taken`` is decided on this fleet already, and
    stays as it is.
    """
    found: dict[str, Change] = {}
    trial = _Trial(fleet, taken)
    alone = (trial.of(request, way) for way in ways())
    for change in chain(_asking_less(fleet, request, taken), *alone):
        found.setdefault(change.kind, change)
    if not found:
        found = {each.kind: each for each in _with_one_wish_less(trial, fleet, request, ways)}
    return tuple(sorted(found.values(), key=lambda change: RANK[Kind(change.kind)]))


def _asking_less(fleet: Fleet, request: VmSpec, taken: Sequence[Placed]) -> Iterator[Change]:
    placer = Placer(fleet, _POLICY)
    for placed in taken:
        placer.commit(placed)
    done: set[Kind] = set()
    for each in easier(request, fleet):
        if each.kind in done:
            continue
        relaxed = replace(each.request, policy=_POLICY)
        decision = placer.decide(relaxed, explain=False)
        if isinstance(decision, Placed):
            done.add(each.kind)
            yield Change(kind=each.kind, text=each.text, host=decision.host)


def _with_one_wish_less(
    trial: _Trial, fleet: Fleet, request: VmSpec, ways: Ways
) -> Iterator[Change]:
    """The first way that helps together with the cheapest wish to give up."""
    for each in easier(request, fleet):
        if each.kind in WISHES:
            for change in chain(*(trial.of(each.request, way) for way in ways())):
                yield replace(change, text=f"{each.text} and {change.text}")
                return


class _Trial:
    """Requests on hosts that would be otherwise."""

    def __init__(self, fleet: Fleet, taken: Sequence[Placed]) -> None:
        self._state = FleetState(fleet)
        hosts = {host.name: host for host in self._state.hosts}
        for placed in taken:
            demand = self._digest(placed.request)
            commit(self._state, hosts[placed.host], placed, demand)
        self._closed = {placed.host for placed in taken}

    def of(self, request: VmSpec, way: Iterable[Alternative]) -> Iterator[Change]:
        """The first that helps; of VMs that would stop also the first that can move instead."""
        demand = self._digest(request)
        for each in way:
            if not self._fits(each, demand):
                continue
            yield Change(kind=each.kind, text=each.text, host=each.host.name, next=each.next())
            if each.stopped is None:
                return
            if home := self._home(each.stopped, each.host.name):
                yield _moved(each.stopped.name, each.host.name, home)
                return

    def _fits(self, each: Alternative, demand: Demand) -> bool:
        """Not tried on a host that takes others: whether these still fit there would be open."""
        if each.host.name in self._closed:
            return False
        host = HostState(each.host, 0, self._state.boards)
        return find_fit(host, demand) is not None

    def _home(self, vm: VmSpec, but: str) -> str:
        """Another host that takes the VM while it still holds its place."""
        demand = self._digest(vm)
        others = (host for host in self._state.hosts if host.name != but)
        return next((host.name for host in others if find_fit(host, demand)), "")

    def _digest(self, request: VmSpec) -> Demand:
        return self._state.digest(replace(request, policy=_POLICY), _POLICY)


def _moved(vm: str, source: str, target: str) -> Change:
    return Change(
        kind=Kind.MOVE,
        text=f"with VM {vm} moved to {target}",
        host=source,
        next=f"vgpumgr vm migrate {vm} --to {target}",
    )
