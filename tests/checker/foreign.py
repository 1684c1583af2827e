"""I9: what we did not make is as it was before."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.seen import HostSeen, Seen
from tests.checker.violation import Violation


def violations(seen: Seen, before: Seen | None) -> Iterator[Violation]:
    """Foreign domains, volumes, mdevs and claims of ``before``: there, and unchanged.

    Whom an operator adopted carries our mark now; all else of it is as it was.
    """
    for name, old in before.hosts.items() if before else ():
        host = seen.hosts.get(name)
        if host is not None and before is not None:
            yield from _gone(seen, before, old, host)


def _gone(seen: Seen, before: Seen, old: HostSeen, host: HostSeen) -> Iterator[Violation]:
    domains = {each.name: each for each in host.domains}
    adopted = {each["vm_id"] for each in seen.store.tasks.values() if each["verb"] == "adopt"}
    for domain in old.domains:
        if before.is_ours(domain) or domain.vm_id in before.store.vms:
            continue
        now = domains.get(domain.name)
        same = now is not None and (now.uuid, now.state) == (domain.uuid, domain.state)
        if now is None or not same or (now.xml != domain.xml and now.vm_id not in adopted):
            yield _touched("domain", f"{domain.name} on {host.name}")
    ids = [f"-{key[:8]}-" for key in before.store.vms]
    ids += [f"-{row['id'][:8]}." for row in before.store.rows.get("image", ())]
    ids += [f"-{row['id'][:8]}" for row in before.store.rows.get("vm_backup", ())]
    for pool, volume in sorted(old.volumes - host.volumes):
        if not any(each in volume for each in ids):
            yield _touched("volume", f"{pool}/{volume} on {host.name}")
    ours = {each["device"] for each in before.store.allocations.values()}
    ours |= {c["wanted"].get("uuid") for c in old.claims if c["fleet"] == before.store.fleet}
    for uuid, mdev in old.mdevs.items():
        if uuid not in ours and host.mdevs.get(uuid) != mdev:
            yield _touched("mdev", f"{uuid} on {host.name}")
    for claim in old.claims:
        if claim["fleet"] != before.store.fleet and claim not in host.claims:
            yield _touched("claim", f"{claim['unit']} on {host.name}")


def _touched(kind: str, what: str) -> Violation:
    return Violation("I9", kind, what)
