"""Decisions on new seats: other GPU parts or CPUs of a VM's host, in addition to its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from vgpumgr.engine.inventory.fleet_without import fleet_without
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.engine.planning.changed_fields import needs_disks, needs_seat, stuck_fields
from vgpumgr.engine.planning.decisions import decide_with_layouts
from vgpumgr.engine.planning.vm_admission import within_quotas
from vgpumgr.model.apply_plan import Action
from vgpumgr.model.placement import Decision, NotPlaced, Placed
from vgpumgr.model.vm import VmRecord, VmSpec, VmState


class NewSeats:
    """The VMs that are to get other GPU parts or CPUs of their hosts, and what is decided for them
    with the new VMs: in addition to their GPU parts, in the place of their CPUs and memory.
    """

    def __init__(self, view: LedgerView, desired: Iterable[VmSpec]) -> None:
        known = {vm.name: vm for vm in view.vms if vm.state is VmState.ACTIVE}
        pairs = ((known[spec.name], spec) for spec in desired if spec.name in known)
        self._moving = {
            vm.id: seat_request(vm, spec)
            for vm, spec in pairs
            if needs_seat(vm.spec, spec) and not stuck_fields(vm, spec)
        }
        self._decided: dict[str, Decision] = {}
        self._view = view
        if self._moving:
            self._view = as_if_off(view, self._moving)

    def decide(self, requests: Sequence[VmSpec], place: PlaceFunction) -> list[Decision]:
        """Decisions for new VMs; those for new seats come first, and are kept."""
        moving = list(self._moving.values())
        found = decide_with_layouts(self._view, [*moving, *requests], place)
        decided = within_quotas(self._view, found)
        self._decided = {each.request.name: each for each in decided[: len(moving)]}
        return decided[len(moving) :]

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
