"""`host maintenance`: a host on which nothing runs and nothing is done, so that it may be off."""

from __future__ import annotations

from collections.abc import Collection

from vgpumgr.engine.desktops.user_sessions import named
from vgpumgr.engine.drift import drift_survey
from vgpumgr.engine.hosts.evacuation_plan import on_host
from vgpumgr.engine.hosts.host_marks import DRAINED, mark, marked_while
from vgpumgr.engine.hosts.host_return import remove_remains
from vgpumgr.engine.migration.users_at_work import users_on
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.domain import OFF
from vgpumgr.model.drift import Drift, DriftKind, DriftReport
from vgpumgr.model.errors import Conflict, PartlyDone
from vgpumgr.model.vm import VmState

# On a host that shows one of these, a VM placed there would not be what it is meant to be.
_IN_THE_WAY = frozenset(
    {
        DriftKind.CLAIM_DIFFERS,
        DriftKind.DEVICE_TAKEN,
        DriftKind.DOMAIN_ELSEWHERE,
        DriftKind.GPU_EVIDENCE,
        DriftKind.GPU_LOST,
        DriftKind.GPU_MISSING,
        DriftKind.LAYOUT,
        DriftKind.POOL_INACTIVE,
        DriftKind.POOL_MISSING,
    }
)


def enter(context: EngineContext, name: str) -> None:
    """Close it, if nothing runs there: VMs on it are off, or moved away. Conflict otherwise, and
    then it is cordoned only if it was before.

    A host that does not answer may be closed only if the ledger has no VM there.
    """
    with marked_while(context, name, cordoned=True):
        _require_idle(context, name)
        mark(context, name, maintenance=True, **DRAINED)


def _require_idle(context: EngineContext, name: str) -> None:
    vms = list(on_host(context.ledger.vms(), name))
    observed = context.refresh([name])
    if name in observed.failed and vms:
        error = observed.failed[name]
        error.next = f"vgpumgr host probe {name}, or if it is lost: vgpumgr host evacuate {name}"
        raise error
    unsettled = [vm.name for vm in vms if vm.state not in {VmState.ACTIVE, VmState.SHELVED}]
    wanted = [vm.name for vm in vms if vm.running]
    facts = observed.facts.get(name)
    found = [d.name for d in facts.domains if d.state not in OFF] if facts else []
    busy = tuple(dict.fromkeys((*unsettled, *wanted, *found)))
    if busy:
        raise Conflict(
            f"{name} is not empty: {', '.join(busy[:5])}{' …' * (len(busy) > 5)}",
            why=f"these run there, are to run, or are being worked on{_users(context, busy)}",
            next=f"vgpumgr host drain {name}",
        )
    if facts is not None and any(p.part in {"libvirt", "domains"} for p in facts.unknown):
        raise PartlyDone(f"cannot tell what runs on {name}", next=f"vgpumgr doctor {name}")


def _users(context: EngineContext, names: Collection[str]) -> str:
    """``; at work: ada on cad-01``."""
    users = users_on(context, names)
    return f"; at work: {named(users)}" if users else ""


def leave(context: EngineContext, name: str) -> DriftReport:
    """Probe, tidy what evacuated VMs left, compare; where nothing is in the way it takes VMs.

    What differs and does no harm there is in the report.
    """
    if context.ledger.host(name).evacuated:
        remove_remains(context, name)
    report = drift_survey.survey(context, [name])
    if report.not_read:
        part = report.not_read[0]
        raise PartlyDone(
            f"{name} stays in maintenance: it could not be read",
            why=f"{part.part}: {part.why}" if part.part else part.why,
            next=f"vgpumgr doctor {name}",
        )
    bad = [each for each in report.drifts if each.kind in _IN_THE_WAY]
    if bad:
        raise _differs(name, bad)
    mark(context, name, maintenance=False, cordoned=False, settled_boot="")
    return report


def _differs(name: str, bad: list[Drift]) -> Conflict:
    return Conflict(
        f"{name} stays in maintenance: it is not in the expected state",
        why="; ".join(each.text for each in bad[:3]),
        next=bad[0].next or f"vgpumgr drift {name}",
    )
