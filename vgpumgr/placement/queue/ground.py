"""Who runs where, on a copy of the supply where one can ask what would be if some had left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from vgpumgr.model.placement import Fleet, Placed
from vgpumgr.model.queue import Running
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.demand import Demand
from vgpumgr.placement.fit import find_fit
from vgpumgr.placement.state import FleetState, HostState
from vgpumgr.placement.taking import commit, proposal, release

_DEPTH = PlacementPolicy.DEPTH_FIRST


class Ground:
    """The hosts of a fleet with what runs on them.

    ``on[host]`` are the VMs there, by name.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._state = FleetState(fleet)
        self._hosts: dict[str, HostState] = {host.name: host for host in self._state.hosts}
        self.on: dict[str, dict[str, Running]] = {name: {} for name in self._hosts}
        self.running: dict[str, Running] = {}

    @property
    def hosts(self) -> Iterable[str]:
        """In the fleet's order."""
        return self._hosts

    def put(self, each: Running) -> None:
        """It runs from now on."""
        self._commit(each.placed)
        self.on[each.placed.host][each.vm.name] = each
        self.running[each.vm.name] = each

    def remove(self, name: str) -> Running:
        """It has left."""
        each = self.running.pop(name)
        del self.on[each.placed.host][name]
        self._release(each.placed)
        return each

    def demand(self, vm: VmSpec) -> Demand:
        """Two VMs with equal demands are interchangeable."""
        return self._state.digest(vm, _DEPTH)

    def fit(
        self,
        vms: Sequence[VmSpec],
        host: str,
        gone: Iterable[str] = (),
        come: Sequence[Placed] = (),
    ) -> tuple[Placed, ...] | None:
        """Where these would go on a host, all of them, if ``gone`` had left and ``come`` were
        there; None where they do not fit. Nothing changes.
        """
        with self._if(gone, come):
            found = self._place(vms, (host,), all_or_none=True)
        return tuple(found) if len(found) == len(vms) else None

    def room_for(
        self, vms: Sequence[VmSpec], gone: Iterable[str], come: Sequence[Placed] = ()
    ) -> int:
        """How many of these find room anywhere, one after the other, with ``gone`` gone and
        ``come`` there. Nothing changes.
        """
        with self._if(gone, come):
            return len(self._place(vms, tuple(self._hosts), all_or_none=False))

    @contextmanager
    def _if(self, gone: Iterable[str], come: Sequence[Placed]) -> Iterator[None]:
        """As if these had left and come; who is not there any more has left."""
        left = [self.running[name].placed for name in gone if name in self.running]
        for each in left:
            self._release(each)
        for each in come:
            self._commit(each)
        yield
        for each in reversed(come):
            self._release(each)
        for each in reversed(left):
            self._commit(each)

    def _place(
        self, vms: Sequence[VmSpec], hosts: Sequence[str], *, all_or_none: bool
    ) -> list[Placed]:
        """Where these find room one beside the other; nothing stays committed."""
        found: list[Placed] = []
        for vm in vms:
            tried = (self._fit(vm, host) for host in hosts)
            placed = next((each for each in tried if each is not None), None)
            if placed is not None:
                self._commit(placed)
                found.append(placed)
            elif all_or_none:
                break
        for each in reversed(found):
            self._release(each)
        return found

    def _fit(self, vm: VmSpec, host: str) -> Placed | None:
        demand = self.demand(vm)
        fit = find_fit(self._hosts[host], demand)
        return proposal(fit, vm, demand) if fit else None

    def _commit(self, placed: Placed) -> None:
        commit(self._state, self._hosts[placed.host], placed, self.demand(placed.request))

    def _release(self, placed: Placed) -> None:
        release(self._state, self._hosts[placed.host], placed, self.demand(placed.request))
