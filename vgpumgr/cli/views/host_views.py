"""Hosts, drains and evacuations as printed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from vgpumgr.cli.output import fields, table
from vgpumgr.cli.views.ages import age, until
from vgpumgr.cli.views.gpu_views import refusal_lines
from vgpumgr.cli.views.outcome_views import cut_off_text
from vgpumgr.cli.views.plan_views import folded
from vgpumgr.endpoints.host_drains import DrainEnd, DrainMove, DrainPlanItem
from vgpumgr.endpoints.host_evacuations import EvacuationItem, LostVm
from vgpumgr.endpoints.host_items import FenceItem, HostItem, HostNic, MigrationItem, StorageItem
from vgpumgr.model.formats import counted, format_mib, size_words
from vgpumgr.model.operation import TaskState


def migration_text(address: MigrationItem) -> str:
    """``10.77.0.12 by TLS as gpu2, at most 500 MiB/s``."""
    named = f" as {address['tls_name']}" if address["tls_name"] else ""
    how = f"by TLS{named}" if address["tls"] else "NOT encrypted"
    limit = address["bandwidth_mib_s"]
    return f"{address['address']} {how}{f', at most {format_mib(limit)}/s' if limit else ''}"


def _fence_words(item: FenceItem | None) -> str:
    """``off: …; status: …``, as one would type them."""
    if item is None:
        return ""
    secret = f"; secret: {item['secret']}" if item["secret"] else ""
    return f"off: {shlex.join(item['off'])}; status: {shlex.join(item['status'])}{secret}"


def helper_text(item: Mapping[str, Any]) -> str:
    """The helper's version, and what to do about another one than we bring along."""
    version = str(item["versions"].get("helper") or "")
    return f"{version} (vgpumgr host upgrade {item['name']})" if item["helper_due"] else version


def host_text(item: HostItem) -> str:
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
            ("IOMMU", _word(item["iommu"], "on", "off")),
            ("KVM", _word(item["kvm"], "yes", "no: domains run under TCG")),
            *((key, value) for key, value in item["versions"].items()),
            ("GPUs", f"{item['gpu_count']} ({', '.join(item['models'])})"),
            *(("NVSwitch partition", _partition_text(each)) for each in _partitions(item)),
            ("Storage pools", ", ".join(map(_storage_text, item["storage"]))),
            ("Stalled pools", ", ".join(item["stalled_pools"])),
            ("Networks", ", ".join(item["networks"])),
            ("Bridges", ", ".join(item["bridges"])),
            *(("NIC", _nic_text(each)) for each in item["nics"]),
            ("Migration", item["migration"] and migration_text(item["migration"])),
            ("Fence", _fence_words(item["fence"])),
            ("Layout", "auto" if item["layout"] == "auto" else ""),
            ("Evacuated", "yes: what its VMs left is still there" if item["evacuated"] else ""),
            ("Labels", ", ".join(f"{k}={v}" for k, v in item["labels"].items())),
            *((f"Unknown {part['part']}", part["why"]) for part in item["unknown"]),
        ]
    )


def _storage_text(pool: StorageItem) -> str:
    """``default (dir, 15.9 TiB free)``."""
    return f"{pool['name']} ({pool['kind']}, {size_words(pool['free_bytes'])} free)"


def _nic_text(nic: HostNic) -> str:
    """``ens1f0 (igb, 1000 Mbit/s), 4 of 7 VFs on, NUMA node 0, network fabric``."""
    link = f"{nic['speed_mbit']} Mbit/s" if nic["speed_mbit"] else "no link"
    said = f"{nic['name']} ({nic['driver'] or 'no driver'}, {link if nic['up'] else 'down'})"
    node = "" if nic["numa_node"] is None else f"NUMA node {nic['numa_node']}"
    networks = f"network {', '.join(nic['networks'])}" if nic["networks"] else ""
    vfs = f"{nic['vfs']} of {nic['vfs_total']} VFs on"
    return ", ".join(filter(None, [said, vfs, node, networks]))


def _word(known: bool | None, yes: str, no: str) -> str:
    """Empty where it is not known."""
    return "" if known is None else yes if known else no


def _partitions(item: HostItem) -> list[dict[str, Any]]:
    return item["fabric"]["partitions"] if item["fabric"] else []


def _partition_text(partition: dict[str, Any]) -> str:
    """``3: modules 1, 2, 3, 4, active``."""
    modules = ", ".join(map(str, partition["gpus"]))
    return f"{partition['id']}: modules {modules}" + (", active" if partition["active"] else "")


def drain_text(plan: DrainPlanItem) -> str:
    """``desk  h1 → h2  while it runs``; of VMs with the same to say once."""
    host = plan["name"]
    return _moves_table(host, plan["vms"]) or f"{host}: no VM is on it"


def drained_text(end: DrainEnd) -> str:
    """What was moved, then the VMs that stay."""
    host, done = end["name"], sum(vm["state"] == TaskState.DONE for vm in end["vms"])
    moved = f"{host}: {counted(done, 'VM')} moved away"
    moved = "; ".join(filter(None, [moved, cut_off_text(end.get("users", []))]))
    return "\n".join(filter(None, [moved, _moves_table(host, end["staying"])]))


def _moves_table(host: str, moves: Sequence[DrainMove]) -> str:
    return table(folded([_line(host, each) for each in moves]))


def _line(host: str, move: DrainMove) -> list[str]:
    if move["to"] is None:
        return [move["name"], "stays", move["why"], move["next"]]
    how = "while it runs" if move["live"] else "cold, and started again" if move["runs"] else "off"
    user = f"{move['at_work']}, and is cut off" if move["cut_off"] else move["at_work"]
    return [move["name"], f"{host} → {move['to']}", how, user]


def evacuation_text(item: EvacuationItem) -> str:
    """What becomes of each VM; of those with the same to say once."""
    host = item["name"]
    rows = [[each["name"], f"{host} → {each['to']}", "", ""] for each in item["remade"]]
    rows += [_lost(each) for each in item["staying"]]
    text = table(folded(rows)) or f"{host}: no VM is on it"
    return "\n".join(filter(None, [text, cut_off_text(item["users"])]))


def _lost(each: LostVm) -> list[str]:
    if each["pool"]:
        why = f"its users get another desktop of pool {each['pool']}"
        return [each["name"], "is lost", why, f"vgpumgr pool show {each['pool']}"]
    return [each["name"], "stays", each["why"], each["next"]]
