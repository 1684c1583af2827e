"""The guests of VMs looked at: checks run by their agents, and the seed of a ready one emptied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from vgpumgr import guests
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.reservation.vm_volumes import SEED_BYTES, attached
from vgpumgr.engine.steps.cloud_init_seed import EMPTIED, emptied_image, guest_facts
from vgpumgr.engine.vms.guest_readiness import GuestLook, after
from vgpumgr.guests.check_verdict import CheckVerdict, printable, quick_verdict, verdict
from vgpumgr.model.domain import OFF
from vgpumgr.model.errors import HostRefused, NotFound, VgpumgrError
from vgpumgr.model.guest import GuestCheck, GuestCommand, GuestPhase, GuestRecord, GuestSpec
from vgpumgr.model.ports import WAIT_LIMITS, Host
from vgpumgr.model.vm import VmRecord, VmState

# The seconds that a host gets in one turn: the rest of its guests have the next one.
SPENT_S = 20.0
# For a file to be printed.
_QUICK_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestTurn:
    """What a turn found: records by VM's name that are other than before, VMs that were looked at,
    and hosts that could not be asked, with the reason.
    """

    changed: tuple[tuple[VmRecord, GuestRecord], ...] = ()
    looked: frozenset[str] = frozenset()
    failed: tuple[tuple[str, str], ...] = ()


def with_checks(context: EngineContext) -> list[VmRecord]:
    """The VMs whose guests have checks, and that stay where they are."""
    settled = {VmState.ACTIVE, VmState.SHELVED}
    return [vm for vm in context.ledger.vms_with_guests() if vm.state in settled]


def turn(context: EngineContext, due: Sequence[VmRecord]) -> GuestTurn:
    """Look at these, hosts side by side, and write down what has changed."""
    by_host: dict[str, list[VmRecord]] = {}
    for vm in due:
        by_host.setdefault(vm.host, []).append(vm)
    work: dict[str, Callable[[], list[tuple[VmRecord, GuestRecord]]]] = {
        host: partial(_look_at_host, context, host, vms) for host, vms in by_host.items()
    }
    found: list[tuple[VmRecord, GuestRecord]] = []
    failed: list[tuple[str, str]] = []
    within_s = SPENT_S + WAIT_LIMITS.look_s
    for host, answer in context.lanes.run(work, within_s=within_s).items():
        if isinstance(answer, VgpumgrError):
            failed.append((host, str(answer)))
        elif isinstance(answer, Exception):
            raise answer
        else:
            found += answer
    changed = tuple((vm, record) for vm, record in found if record != vm.guest)
    if changed:
        context.ledger.note_guests([record for _, record in changed])
    looked = frozenset(vm.id for vm, _ in found)
    return GuestTurn(changed=changed, looked=looked, failed=tuple(failed))


def _look_at_host(
    context: EngineContext, name: str, vms: Sequence[VmRecord]
) -> list[tuple[VmRecord, GuestRecord]]:
    host, clock = context.host(name), context.clock
    until, found = clock.monotonic() + SPENT_S, []
    for vm in vms:
        if context.stop.is_set() or clock.monotonic() >= until:
            break
        found.append((vm, looked_at(host, vm, clock.now())))
    return found


def looked_at(host: Host, vm: VmRecord, now: float) -> GuestRecord:
    """What is known of a VM's guest after a look at ``now``; its seed is emptied once it is ready.
    Raises what the host does that cannot be asked.
    """
    guest = vm.spec.guest
    assert guest is not None, "only VMs with checks are looked at"
    before = vm.guest or GuestRecord(vm_id=vm.id)
    look = _look(host, vm, guest, quick=_is_early(before, guest, now))
    record = after(before, look, guest.within_s, now)
    if record.phase is not GuestPhase.READY or record.emptied_at:
        return record
    try:
        return replace(record, emptied_at=now) if empty_seed(host, vm) else record
    except (HostRefused, NotFound) as error:  # other guests of the host are looked at all the same
        return replace(record, why=f"its seed could not be emptied: {error.why or error.message}")


def _quickly(host: Host, vm: VmRecord, check: GuestCheck) -> CheckVerdict | None:
    """None where there is no quick way, or it leaves a doubt."""
    if not check.quick:
        return None
    command = GuestCommand(run=check.quick, timeout_s=_QUICK_S)
    answer = host.domains.run_in_guest(vm.domain_uuid, command)
    return quick_verdict(answer) if answer is not None else None


def _is_early(before: GuestRecord, guest: GuestSpec, now: float) -> bool:
    """Is there no sign yet that its first boot hangs? A cloud-init that died says to its file's
    readers for ever that it is at work.
    """
    return not before.started or now - before.started < guest.within_s / 2


def _look(host: Host, vm: VmRecord, guest: GuestSpec, *, quick: bool) -> GuestLook:
    if vm.state is not VmState.ACTIVE or not vm.running:
        return GuestLook(runs=False)
    told: CheckVerdict | None = None
    try:
        # No check depends on the host's driver.
        checks = guests.checks(guest, vm.spec.os, guest_facts(vm, "000"))
    except (guests.ProfileError, KeyError) as error:  # it was written for another release
        why = f"its file does not suit this release's guest profiles: {error.args[0]}"
        return GuestLook(failed=CheckVerdict(final=True, why=why))
    for check in checks:
        try:
            said = _quickly(host, vm, check) if quick else None
            if said is None:
                command = GuestCommand(run=check.run, timeout_s=check.timeout_s)
                answer = host.domains.run_in_guest(vm.domain_uuid, command)
                said = verdict(check, answer) if answer is not None else None
        except HostRefused as error:
            return GuestLook(refused=printable(error.why or error.message))
        except NotFound:
            return GuestLook(runs=False)
        if said is None:
            facts = host.domains.look(vm.name)
            return GuestLook(runs=facts is not None and facts.state not in OFF, mute=True)
        if said.well:
            continue
        if told is None and said.final:
            told = said  # a check of what is missing may say more
            continue
        return GuestLook(failed=said if told is None else _both(told, said))
    return GuestLook(failed=told)


def _both(first: CheckVerdict, other: CheckVerdict) -> CheckVerdict:
    return replace(first, why=f"{first.why}; {other.why}")


def empty_seed(host: Host, vm: VmRecord) -> bool:
    """Take what prepared the guest out of its seed; is it out, by reading back? A seed that is not
    there has nothing in it.
    """
    seed = next((each for each in attached(vm) if each.disk is None), None)
    if seed is None or host.storage.look(seed.pool, seed.name) is None:
        return True
    if not _is_emptied(host, seed.pool, seed.name):
        host.storage.upload(seed.pool, seed.name, emptied_image(vm, SEED_BYTES))
    return _is_emptied(host, seed.pool, seed.name)


def _is_emptied(host: Host, pool: str, name: str) -> bool:
    return EMPTIED.encode() in host.storage.read(pool, name, SEED_BYTES)
