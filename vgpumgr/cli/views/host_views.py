"""Hosts, drains and evacuations as printed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vgpumgr.app.enrolment import HELPER_VERSION
from vgpumgr.cli.output import fields, table
from vgpumgr.cli.views.ages import age, until
from vgpumgr.cli.views.gpu_views import refusal_lines
from vgpumgr.cli.views.outcome_views import cut_off_text
from vgpumgr.cli.views.plan_views import folded
from vgpumgr.endpoints.host_looks import look_item
from vgpumgr.endpoints.outcomes import outcome_item, user_items
from vgpumgr.endpoints.refusal_items import BACK_OFF, refusals_item
from vgpumgr.model.codec import to_plain
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.formats import counted, format_mib
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.model.refusal import Refusal, of_place

if TYPE_CHECKING:
    from vgpumgr.engine.hosts.evacuation_plan import EvacuationPlan, StayingVm
    from vgpumgr.engine.hosts.host_drain import DrainReport, DrainTarget
    from vgpumgr.engine.operations.operation_outcome import Outcome


def host_item(host: HostRecord, refusals: Sequence[Refusal] = ()) -> dict[str, Any]:
    """The JSON of a host; ``refusals`` are what the fleet refused."""
    facts, own = host.facts, refusals_item(of_place(refusals, host.name, ""))
    state = host_state(host)
    models = sorted({gpu.model for gpu in facts.gpus}) if facts else []
    return {
        "name": host.name,
        "state": BACK_OFF if state == "ready" and own["back_off_s"] else state,
        **own,
        "address": host.address,
        "host_key": host.host_key,
        "cordoned": host.cordoned,
        "labels": dict(host.labels),
        "migration": to_plain(host.migration),
        "draining": host.draining,
        "logoff_by": host.logoff_by,
        "maintenance": host.maintenance,
        "membership": str(host.membership),
        "evacuated": host.evacuated,
        "layout": host.layout,
        "fence": to_plain(host.fence),
        **look_item(host),
        "last_error": host.last_error,
        "gpu_count": len(facts.gpus) if facts else 0,
        "models": models,
        "cpus": facts.cpus if facts else 0,
        "cpu_model": facts.cpu_model if facts else "",
        "memory_mib": facts.memory_mib if facts else 0,
        "iommu": facts.iommu if facts else None,
        "kvm": facts.kvm if facts else None,
        "boot_id": facts.boot_id if facts else "",
        "settled_boot": host.settled_boot,
        "versions": to_plain(facts.versions) if facts else {},
        "pools": [pool.name for pool in facts.pools] if facts else [],
        "networks": list(facts.networks) if facts else [],
        "bridges": list(facts.bridges) if facts else [],
        "fabric": to_plain(facts.fabric) if facts else None,
        "unknown": [to_plain(part) for part in facts.unknown] if facts else [],
    }


def migration_text(address: MigrationAddress) -> str:
    """``10.77.0.12 by TLS as gpu2, at most 500 MiB/s``."""
    named = f" as {address.tls_name}" if address.tls_name else ""
    how = f"by TLS{named}" if address.tls else "NOT encrypted"
    limit = address.bandwidth_mib_s
    return f"{address.address} {how}{f', at most {format_mib(limit)}/s' if limit else ''}"


def _migration_words(item: dict[str, Any] | None) -> str:
    return "" if item is None else migration_text(MigrationAddress(**item))


def _fence_words(item: dict[str, Any] | None) -> str:
    """``off: …; status: …``, as one would type them."""
    return "" if item is None else "; ".join(f"{k}: {shlex.join(v)}" for k, v in item.items())


def helper_text(item: Mapping[str, Any]) -> str:
    """The helper's version, and what to do about another one than we bring along."""
    version = str(item["versions"].get("helper") or "")
    differs = version and version != HELPER_VERSION
    return f"{version} (vgpumgr host upgrade {item['name']})" if differs else version


def host_state(host: HostRecord) -> str:
    """The worst of a host's states as one word; a host in maintenance may be off."""
    if host.membership is not Membership.MEMBER:
        return str(host.membership)
    if host.maintenance:
        return "maintenance"
    if host.last_error:
        return "unreachable"
    if host.draining:
        return "draining"
    if host.cordoned:
        return "cordoned"
    if host.facts is None:
        return "unknown"
    if host.settled_boot not in {"", host.facts.boot_id}:
        return "returning"
    return "partial" if host.facts.unknown else "ready"


def host_text(item: dict[str, Any]) -> str:
    """A host for people."""
    return fields(
        [
            ("Name", item["name"]),
            ("State", item["state"]),
            *refusal_lines(item),
            ("Users must log off", until(item["logoff_by"]) if item["logoff_by"] else ""),
            ("Address", item["address"]),
            ("SSH key", item["host_key"]),
            ("Seen", f"{age(item['observed_at'])} ago" if item["observed_at"] else "never"),
            ("Error", item["last_error"]),
            ("CPUs", f"{item['cpus']} {item['cpu_model']}".strip()),
            ("Memory", format_mib(item["memory_mib"])),
            ("IOMMU", {True: "on", False: "off"}.get(item["iommu"], "")),
            ("KVM", {True: "yes", False: "no: domains run under TCG"}.get(item["kvm"], "")),
            *((key, value) for key, value in item["versions"].items()),
            ("GPUs", f"{item['gpu_count']} ({', '.join(item['models'])})"),
            *(("NVSwitch partition", _partition_text(each)) for each in _partitions(item)),
            ("Storage pools", ", ".join(item["pools"])),
            ("Networks", ", ".join(item["networks"])),
            ("Bridges", ", ".join(item["bridges"])),
            ("Migration", _migration_words(item["migration"])),
            ("Fence", _fence_words(item["fence"])),
            ("Layout", "auto" if item["layout"] == "auto" else ""),
            ("Evacuated", "yes: what its VMs left is still there" if item["evacuated"] else ""),
            ("Labels", ", ".join(f"{k}={v}" for k, v in item["labels"].items())),
            *((f"Unknown {part['part']}", part["why"]) for part in item["unknown"]),
        ]
    )


def _partitions(item: dict[str, Any]) -> list[dict[str, Any]]:
    return item["fabric"]["partitions"] if item["fabric"] else []


def _partition_text(partition: dict[str, Any]) -> str:
    """``3: modules 1, 2, 3, 4, active``."""
    modules = ", ".join(map(str, partition["gpus"]))
    return f"{partition['id']}: modules {modules}" + (", active" if partition["active"] else "")


def probe_summary(record: HostRecord) -> str:
    """``2 GPUs, 5 domains``, and what could not be read."""
    facts = record.facts
    if facts is None:
        return "enrolled"
    unknown = "".join(f"; could not read {part.part}: {part.why}" for part in facts.unknown)
    return f"{counted(len(facts.gpus), 'GPU')}, {counted(len(facts.domains), 'domain')}{unknown}"


def drain_item(host: str, choices: Sequence[DrainTarget]) -> dict[str, Any]:
    """The JSON of what a drain would do."""
    return {"name": host, "vms": [_choice(each) for each in choices]}


def drain_text(host: str, choices: Sequence[DrainTarget]) -> str:
    """``desk  h1 → h2  while it runs``; of VMs with the same to say once."""
    return table(folded([_line(each) for each in choices])) or f"{host}: no VM is on it"


def drained_item(drained: DrainReport) -> dict[str, Any]:
    """The JSON of what a drain did."""
    return {
        **outcome_item(drained.outcome),
        "name": drained.host,
        "staying": [_choice(each) for each in drained.staying],
        "users": user_items(drained.cut_off),
    }


def drained_text(drained: DrainReport) -> str:
    """What was moved, then the VMs that stay."""
    moved = f"{drained.host}: {counted(len(drained.outcome.done), 'VM')} moved away"
    moved = "; ".join(filter(None, [moved, cut_off_text(user_items(drained.cut_off))]))
    return "\n".join(
        filter(None, [moved, table(folded([_line(each) for each in drained.staying]))])
    )


def evacuation_item(plan: EvacuationPlan, outcome: Outcome | None = None) -> dict[str, Any]:
    """The JSON of an evacuation; ``outcome`` None: it was only planned."""
    return {
        **(outcome_item(outcome) if outcome else {}),
        "name": plan.lost.name,
        "remade": [{"name": each.vm.name, "to": each.placed.host} for each in plan.remade],
        "staying": [
            {"name": each.vm.name, "why": each.why, "next": each.next, "pool": each.pool}
            for each in plan.staying
        ],
        "users": user_items(plan.users),
    }


def evacuation_text(plan: EvacuationPlan) -> str:
    """What becomes of each VM; of those with the same to say once."""
    rows = [[e.vm.name, f"{plan.lost.name} → {e.placed.host}", "", ""] for e in plan.remade]
    rows += [_staying(each) for each in plan.staying]
    text = table(folded(rows)) or f"{plan.lost.name}: no VM is on it"
    return "\n".join(filter(None, [text, cut_off_text(user_items(plan.users))]))


def _staying(each: StayingVm) -> list[str]:
    if each.pool:
        why = f"its users get another desktop of pool {each.pool}"
        return [each.vm.name, "is lost", why, f"vgpumgr pool show {each.pool}"]
    return [each.vm.name, "stays", each.why, each.next]


def _choice(choice: DrainTarget) -> dict[str, Any]:
    plan = choice.move[0] if choice.move else None
    return {
        "name": choice.vm.name,
        "to": plan.target.name if plan else None,
        "live": plan.live if plan else None,
        "user": choice.user.user if choice.user else None,
        "cut_off": _is_cut_off(choice),
        "leaves": choice.leaves,
        "why": choice.why,
        "next": choice.next,
    }


def _line(choice: DrainTarget) -> list[str]:
    if choice.move is None:
        return [choice.vm.name, "stays", choice.why, choice.next]
    plan = choice.move[0]
    how = "while it runs" if plan.live else "cold, and started again" if plan.runs else "off"
    user = choice.user.words if choice.user else ""
    if _is_cut_off(choice):
        user = f"{user}, and is cut off"
    return [choice.vm.name, f"{plan.source.name} → {plan.target.name}", how, user]


def _is_cut_off(choice: DrainTarget) -> bool:
    """Does the move end a session?"""
    plan = choice.move[0] if choice.move else None
    return choice.user is not None and plan is not None and plan.runs and not plan.live
