"""Hosts as the reading commands show them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from vgpumgr.app.upgrade import HELPER_VERSION
from vgpumgr.cli.output import fields
from vgpumgr.cli.views.ages import age, look_item, until
from vgpumgr.cli.views.refusals import BACK_OFF, refusal_lines, refusals_item
from vgpumgr.model.codec import to_plain
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.model.migration import MigrationAddress
from vgpumgr.model.refusal import Refusal, of_place
from vgpumgr.model.size import format_mib
from vgpumgr.model.words import counted


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
    """One word, the worst first; a host in maintenance may be off."""
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
