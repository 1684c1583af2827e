"""The endpoints of power budgets: list, show, apply, remove."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import DocumentText, documents_of, source_name
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.figure_items import newest_sample
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing, Time
from vgpumgr.model.codec import to_plain
from vgpumgr.model.formats import spanned

if TYPE_CHECKING:
    from vgpumgr.engine.inventory.ledger_view import LedgerView
    from vgpumgr.engine.inventory.planned_power import PlannedPower
    from vgpumgr.model.host_sample import FleetSample
    from vgpumgr.model.ledger import Ledger
    from vgpumgr.model.power import MeterReading, PowerBudget, PowerCap


class PowerBudgetItem(TypedDict):
    """A budget in watts: ``planned`` are the hosts without their GPUs (``base``) and the limits of
    the GPUs that VMs hold, ``left`` is what is not planned. ``measured`` is what its hosts' GPUs
    draw with that base, or what its meter says, null where neither is known; ``meter`` is why that
    was not read. ``held`` counts its capped GPUs.
    """

    name: str
    parent: str
    watts: int
    planned_watts: int
    left_watts: int
    measured_watts: int | None
    meter: str
    base_watts: int
    hosts: list[str]
    gpus_in_use: int
    held: int


class PowerCapItem(TypedDict):
    """A GPU that is held: by a limit in watts, by clocks in MHz, and why."""

    gpu: str
    host: str
    limit_watts: int | None
    locked_clocks_mhz: list[int] | None
    why: str
    since: Time


class ShownPowerBudget(PowerBudgetItem):
    """A budget with those under it and its GPUs that are held."""

    children: list[PowerBudgetItem]
    caps: list[PowerCapItem]


def list_power(context: CallContext, _: Nothing) -> Result[ItemList[PowerBudgetItem]]:
    """Every power budget, parents first."""
    return Result(answer={"items": _Reading(context).items()})


class _Reading:
    """The ledger and the newest figures, read once."""

    def __init__(self, context: CallContext) -> None:
        from vgpumgr.engine.inventory.ledger_view import read_view
        from vgpumgr.engine.inventory.planned_power import PlannedPower

        self.view: LedgerView = read_view(context.app.ledger)
        self.plan: PlannedPower = PlannedPower(self.view)
        sample = newest_sample(context.app)
        self._measured = gpu_watts(sample)
        self._meters = {each.budget: each for each in (sample.meters if sample else ())}
        self._capped = {each.gpu for each in self.view.caps}

    def items(self) -> list[PowerBudgetItem]:
        return [self.item(each) for each in reversed(self.plan.tree.budgets)]

    def item(self, budget: PowerBudget) -> PowerBudgetItem:
        hosts = self.plan.tree.hosts[budget.name]
        gpus = [each for each in self.view.gpus if each.host in hosts]
        planned = self.plan.planned(budget.name)
        base = sum(map(self.plan.tree.host_watts, hosts))
        told = all(host in self._measured for host in hosts) and bool(hosts)
        gpus_mw = sum(self._measured.get(host, 0) for host in hosts)
        drawn = base + round(gpus_mw / 1000) if told else None
        meter = self._meters.get(budget.name)
        metered = meter.watts if meter is not None else None
        return {
            "name": budget.name,
            "parent": budget.parent,
            "watts": budget.watts,
            "planned_watts": planned,
            "left_watts": budget.watts - planned,
            "measured_watts": round(metered) if metered is not None else drawn,
            "meter": _fault(budget, meter),
            "base_watts": base,
            "hosts": sorted(hosts),
            "gpus_in_use": sum(each.id in self.plan.used for each in gpus),
            "held": sum(each.id in self._capped for each in gpus),
        }


def _fault(budget: PowerBudget, meter: MeterReading | None) -> str:
    """Why a budget's meter tells nothing, or which sensors; empty where all is well."""
    if budget.meter is None:
        return ""
    if meter is None:
        return "not read yet, or by no controller of this machine"
    nonsense = f"nonsense from {', '.join(meter.unread[:4])}" if meter.unread else ""
    return meter.error or nonsense


def gpu_watts(sample: FleetSample | None) -> Mapping[str, int]:
    """Milliwatts of the GPUs of each host whose every GPU told it."""
    found = {}
    for host in sample.hosts if sample is not None else ():
        gpus = host.figures.gpus if host.figures is not None else None
        if gpus is not None and all("power_mw" in each.figures for each in gpus):
            found[host.host] = sum(each.figures["power_mw"] for each in gpus)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePowerBudget:
    """A power budget by its name."""

    name: Name


def show_power(context: CallContext, asked: OnePowerBudget) -> Result[ShownPowerBudget]:
    """One budget, those under it, and its GPUs that are held. NotFound."""
    from vgpumgr.store.database.faults import not_found

    reading = _Reading(context)
    tree = reading.plan.tree
    budget = tree.by_name.get(asked.name)
    if budget is None:
        raise not_found("power", asked.name, tree.by_name)
    children = [reading.item(each) for each in tree.budgets if each.parent == budget.name]
    hosts = tree.hosts[budget.name]
    caps = [_cap(each) for each in reading.view.caps if each.host in hosts]
    return Result(answer={**reading.item(budget), "children": children, "caps": caps})


def _cap(cap: PowerCap) -> PowerCapItem:
    return {
        "gpu": cap.gpu,
        "host": cap.host,
        "limit_watts": cap.limit_w,
        "locked_clocks_mhz": None if cap.clocks is None else list(cap.clocks),
        "why": cap.why,
        "since": cap.since,
    }


class PowerBudgetChange(TypedDict):
    """What a document changes of a power budget (``new``: all of it), a line each."""

    name: str
    new: bool
    changes: list[str]


class PowerBudgetChanges(TypedDict):
    """What documents change of power budgets: ``changes`` counts the budgets."""

    name: str
    changes: int
    budgets: list[PowerBudgetChange]


def budget_changes(context: CallContext, wanted: Sequence[PowerBudget]) -> PowerBudgetChanges:
    """The JSON of what documents change of power budgets; NotFound, Conflict where the budgets
    would be no tree.
    """
    known = _known_with(context.app.ledger, wanted)
    items = [_change(known.get(each.name), each) for each in wanted]
    count = sum(bool(each["new"] or each["changes"]) for each in items)
    return {"name": "power budgets", "changes": count, "budgets": items}


def _known_with(ledger: Ledger, wanted: Sequence[PowerBudget]) -> Mapping[str, PowerBudget]:
    """The budgets that there are; with the wanted ones they must be a tree."""
    from vgpumgr.power.budget_tree import require_tree

    known = {each.name: each for each in ledger.power_budgets()}
    require_tree([*({**known, **{each.name: each for each in wanted}}).values()])
    return known


def _change(before: PowerBudget | None, after: PowerBudget) -> PowerBudgetChange:
    old, new = (to_plain(each) if each is not None else {} for each in (before, after))
    lines = [
        f"{key}: {_value(old[key])} → {_value(new[key])}" for key in old if old[key] != new[key]
    ]
    return {"name": after.name, "new": before is None, "changes": lines}


def _value(value: object) -> str:
    return json.dumps(value) if value not in (None, "", [], {}) else "none"


def apply_power(context: CallContext, asked: DocumentText) -> Result[ItemList[PowerBudgetItem]]:
    """Write the power budgets of a file, each over that of its name, and leave its documents of
    other kinds; answers with all there are.
    """
    ledger = context.app.writable_ledger
    wanted = _budgets_of(ledger, asked)
    _known_with(ledger, wanted)
    ledger.set_power_budgets(wanted)
    reading = _Reading(context)
    hosts = {each.name for each in reading.view.hosts}
    notes = (_unknown(each, hosts) for each in wanted)
    return Result(answer={"items": reading.items()}, notes=tuple(filter(None, notes)))


def _budgets_of(ledger: Ledger, asked: DocumentText) -> Sequence[PowerBudget]:
    from vgpumgr.spec import kinds
    from vgpumgr.spec.single_kind import load_budgets

    text = asked.text.encode(errors="surrogatepass")
    if kinds(text) > {"PowerBudget"}:
        return documents_of(ledger, asked).budgets
    return load_budgets(text, source_name(asked.source))


def _unknown(budget: PowerBudget, hosts: Collection[str]) -> str:
    """That it names hosts that are none; empty where it does not."""
    lost = [each for each in budget.hosts if each not in hosts]
    return (
        f"power budget {budget.name}: there is no host {spanned(lost)} (vgpumgr host list)"
        if lost
        else ""
    )


class PowerBudgetName(TypedDict):
    """A power budget."""

    name: str


def remove_power(context: CallContext, asked: OnePowerBudget) -> Result[PowerBudgetName]:
    """Forget a budget. NotFound; Conflict while others are under it."""
    context.app.writable_ledger.remove_power_budget(asked.name)
    return Result(answer={"name": asked.name})


LIST_POWER = Endpoint(
    name="power.list",
    method=HttpMethod.GET,
    path="/power-budgets",
    permission=Permission.FLEET_READ,
    summary="What may be drawn, is planned, and is measured.",
    asks=Nothing,
    answers=ItemList[PowerBudgetItem],
    kind="PowerBudgetList",
    work=list_power,
)
SHOW_POWER = Endpoint(
    name="power.show",
    method=HttpMethod.GET,
    path="/power-budgets/{name}",
    permission=Permission.FLEET_READ,
    summary="One power budget, and the GPUs that are held for it.",
    asks=OnePowerBudget,
    answers=ShownPowerBudget,
    kind="PowerBudget",
    work=show_power,
)
APPLY_POWER = Endpoint(
    name="power.apply",
    method=HttpMethod.POST,
    path="/power-budgets:apply",
    permission=Permission.POWER_WRITE,
    summary="Write the power budgets of a file.",
    asks=DocumentText,
    answers=ItemList[PowerBudgetItem],
    kind="PowerBudgetList",
    work=apply_power,
)
REMOVE_POWER = Endpoint(
    name="power.remove",
    method=HttpMethod.DELETE,
    path="/power-budgets/{name}",
    permission=Permission.POWER_WRITE,
    summary="Forget a power budget.",
    asks=OnePowerBudget,
    answers=PowerBudgetName,
    kind="PowerBudgetName",
    work=remove_power,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (LIST_POWER, SHOW_POWER, APPLY_POWER, REMOVE_POWER)
