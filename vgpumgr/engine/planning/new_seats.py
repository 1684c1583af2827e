"""Decisions on new seats: other GPU parts or CPUs of a VM's host, in addition to its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from vgpumgr.engine.inventory.fleet_without import fleet_without
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.engine.planning.changed_fields import needs_disks, needs_seat, stuck_fields
from vgpumgr.engine.planning.decisions import decide_with_layouts
from vgpumgr.engine.planning.own_places import OwnPlaces
from vgpumgr.engine.planning.placement_limits import within_limits
from vgpumgr.model.apply_plan import Action
from vgpumgr.model.placement import Decision, NotPlaced, Placed
from vgpumgr.model.vm import VmRecord, VmSpec, VmState


class NewSeats:
    """The VMs that are to get other GPU parts or CPUs of their hosts, and what is decided for them
    with the new VMs: in addition to their GPU parts, in the place of their CPUs and memory.
    """

    def __init__(
        self,
        view: LedgerView,
        desired: Iterable[VmSpec],
        waves: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        known = {vm.name: vm for vm in view.vms if vm.state is VmState.ACTIVE}
        pairs = ((known[spec.name], spec) for spec in desired if spec.name in known)
        self._moving = {
            vm.id: seat_request(vm, spec)
            for vm, spec in pairs
            if needs_seat(vm.spec, spec) and not stuck_fields(vm, spec)
        }
        self._waves = _by_wave(self._moving, waves)
        self._decided: dict[str, Decision] = {}
        self._released: set[str] = set()
        self._whole = self._view = view
        if self._waves[0]:
            self._view = as_if_off(view, self._waves[0])

    def decide(self, requests: Sequence[VmSpec], place: PlaceFunction) -> list[Decision]:
        """Decisions for new VMs; those for new seats of the first wave come first, and are kept.
        Later waves are decided as if the earlier ones were over: what holds is decided again when
        they begin.
        """
        first = self._waves[0]
        found = decide_with_layouts(self._view, [*first.values(), *requests], place)
        decided = within_limits(self._view, found)
        self._released = set()
        self._decided = {each.request.name: each for each in decided[: len(first)]}
        taken = [each for each in decided if isinstance(each, Placed)]
        taken += self._in_own_place(first, OwnPlaces(self._view, place, (), tuple(taken)))
        if len(self._waves) > 1:
            self._foresee(taken, place)
        return decided[len(first) :]

    def _foresee(self, taken: list[Placed], place: PlaceFunction) -> None:
        """The decisions of later waves, after what is ``taken`` in the first."""
        gone = self._settled(self._waves[0])
        for wave in self._waves[1:]:
            view = as_if_off(self._whole, wave)
            found = place(fleet_without(view, gone), list(wave.values()), taken=taken)
            allowed = within_limits(as_if_off(view, gone), [*taken, *found])[len(taken) :]
            self._decided |= {each.request.name: each for each in allowed}
            taken += [each for each in allowed if isinstance(each, Placed)]
            taken += self._in_own_place(wave, OwnPlaces(view, place, set(gone), tuple(taken)))
            gone |= self._settled(wave)

    def _in_own_place(self, wave: Mapping[str, VmSpec], places: OwnPlaces) -> list[Placed]:
        """Seats of the wave's VMs without one that release their own parts first."""
        found = []
        for vm_id, spec in wave.items():
            if spec.gpus and isinstance(self.of(spec.name), NotPlaced):
                placed = places.decide(vm_id, spec)
                if placed is not None:
                    self._decided[spec.name] = placed
                    self._released.add(spec.name)
                    found.append(placed)
        return found

    def _settled(self, wave: Mapping[str, VmSpec]) -> set[str]:
        """The VMs of a wave (ids) that leave their seats."""
        return {vm for vm, spec in wave.items() if isinstance(self.of(spec.name), Placed)}

    def releases_first(self, name: str) -> bool:
        """Whether a VM gets its seat once it has released its own parts."""
        return name in self._released

    def of(self, name: str) -> Decision | None:
        """What was decided for a VM; None where it keeps its seat."""
        return self._decided.get(name)

    def in_own_way(self, place: PlaceFunction) -> tuple[str, ...]:
        """VMs without a new seat that would have one if they held no GPU part."""
        refused = {
            vm_id: spec
            for vm_id, spec in self._moving.items()
            if isinstance(self.of(spec.name), NotPlaced)
        }
        if not refused:
            return ()
        found = place(fleet_without(self._view, refused), list(refused.values()))
        return tuple(each.request.name for each in found if isinstance(each, Placed))


def _by_wave(moving: Mapping[str, VmSpec], waves: Mapping[str, int]) -> list[dict[str, VmSpec]]:
    """What moves at once or in the first wave, in the second, and so on."""
    found: dict[int, dict[str, VmSpec]] = {1: {}}
    for vm, spec in moving.items():
        found.setdefault(max(1, waves.get(spec.name, 1)), {})[vm] = spec
    return [found[number] for number in sorted(found)]


def is_reseated(change: Action) -> bool:
    """Does the change of a VM need other GPU parts, CPUs, or disks?"""
    old = change.record
    return change.placed is not None or (old is not None and needs_disks(old.spec, change.vm))


def as_if_off(view: LedgerView, ids: Collection[str]) -> LedgerView:
    """The view if these VMs (by id) held their GPU parts, and no CPU or memory."""
    vms = (replace(vm, state=VmState.SHELVED) if vm.id in ids else vm for vm in view.vms)
    return replace(view, vms=tuple(vms))


def seat_request(vm: VmRecord, spec: VmSpec) -> VmSpec:
    """What a VM asks placement for where it is to be as in ``spec``: capacity on the host where
    its disks are.
    """
    affinity = replace(spec.affinity, hosts=(vm.host,))
    return replace(spec, affinity=affinity, disks=(), cloud_init=None)


def released_first(name: str) -> str:
    """What to type where a VM's own GPU parts are in the way of its new ones."""
    return f"{name} fits once its own GPU parts are released: {release_command(name)}"


def release_command(name: str) -> str:
    """The commands that change it all the same; ``FILE`` stands for the user's file."""
    return (
        f"vgpumgr vm stop {name} --release-gpu, then vgpumgr apply -f FILE, "
        f"then vgpumgr vm start {name}"
    )
