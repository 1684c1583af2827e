"""I6 and I7: no VM is lost, and none is on two hosts, let alone runs there."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

from tests.checker.leaks import kept_volumes
from tests.checker.seen import Domain, Row, Seen
from tests.checker.violation import Violation


def violations(seen: Seen, _: Seen | None) -> Iterator[Violation]:
    """Each VM of the store against the domains that carry its mark, and what was seen between."""
    yield from dual_running(seen)
    found = _by_vm(seen)
    for row in seen.store.vms.values():
        if row["deleted_at"] is None:
            yield from _vm(seen, row, found[row["id"]])


def dual_running(seen: Seen) -> Iterator[Violation]:
    """I7 alone: it holds at every moment, not only once all has ended."""
    for vm_id, domains in sorted(_by_vm(seen).items()):
        runs = sorted(each.host for each in domains if each.state == "running")
        if len(runs) > 1:
            yield Violation("I7", "runs twice", f"VM {vm_id} runs on {runs}")
    if seconds := seen.watch.get("dual_running_s", 0.0):
        yield Violation("I7", "ran twice", f"a VM ran on two hosts for {seconds:.6f} s")


def _by_vm(seen: Seen) -> defaultdict[str, list[Domain]]:
    found: defaultdict[str, list[Domain]] = defaultdict(list)
    for host in seen.hosts.values():
        for domain in host.domains:
            if seen.is_ours(domain):
                found[domain.vm_id].append(domain)
    return found


def _vm(seen: Seen, row: Row, domains: list[Domain]) -> Iterator[Violation]:
    name = row["name"]
    if row["state"] not in {"active", "shelved"} or row["moving_to"] is not None:
        yield Violation("I6", "half way", f"{name} is {row['state']}")
    holds = any(each["vm_id"] == row["id"] for each in seen.store.allocations.values())
    if row["state"] == "shelved" and holds:
        yield Violation("I6", "holds", f"{name} is shelved, and holds something")
    hosts = sorted(each.host for each in domains)
    if not domains and row["host"] in seen.hosts:
        yield Violation("I6", "lost", f"{name} is defined nowhere, not even on {row['host']}")
    if hosts and hosts != [row["host"]]:
        yield Violation("I6", "elsewhere", f"{name} is on {hosts}, not on {row['host']} alone")
    yield from _disks(seen, row)
    for domain in domains:
        if not domain.persistent:
            yield Violation("I6", "transient", f"{name} on {domain.host} is not kept")
        if domain.is_off == bool(row["running"]):
            wanted = "to run" if row["running"] else "to be off"
            yield Violation("I6", "power", f"{name} is {domain.state}, and is {wanted}")


def _disks(seen: Seen, row: Row) -> Iterator[Violation]:
    """No volume of it is lost, nor one of its snapshots."""
    host = seen.hosts.get(row["host"])
    for pool, name in [*json.loads(row["volumes"]), *kept_volumes(row)] if host else ():
        if (pool, name) not in host.volumes:
            yield Violation("I6", "disk lost", f"{pool}/{name} of {row['name']} on {host.name}")
