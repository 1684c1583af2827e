"""I3 for backups of VMs: what the store calls one is whole on its host, and nothing else lies there
that was to be one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.checker.seen import Row, Seen
from tests.checker.violation import Violation


def violations(seen: Seen, _: Seen | None) -> Iterator[Violation]:
    """Backups by the names of their volumes, which carry their id."""
    rows = seen.store.rows.get("vm_backup", ())
    for row in rows:
        if row["gone_at"] is None:
            yield from _open(seen, row)
    prefixes = {_prefix(row): row["gone_at"] is None for row in rows}
    for host in seen.hosts.values():
        for pool, name in sorted(host.volumes):
            found = re.match(r"(.+-[0-9a-f]{8})(-vd[a-z]\.qcow2|\.json)$", name)
            if found and not prefixes.get(found[1], False):
                yield Violation("I3", "backup", f"{pool}/{name} on {host.name} is of no backup")


def _open(seen: Seen, row: Row) -> Iterator[Violation]:
    if row["state"] != "there":
        yield Violation("I3", "backup", f"{_prefix(row)} is {row['state']}")
        return
    host = seen.hosts.get(row["host"])
    if host is None or row["fault"]:
        return
    if (row["pool"], f"{_prefix(row)}.json") not in host.volumes:
        yield Violation("I3", "backup", f"{_prefix(row)} has no manifest on {row['host']}")
    if (row["pool"], f"{_prefix(row)}-vda.qcow2") not in host.volumes:
        yield Violation("I3", "backup", f"{_prefix(row)} has no disk on {row['host']}")


def _prefix(row: Row) -> str:
    return f"{row['vm']}-{row['id'][:8]}"
