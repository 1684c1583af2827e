"""I2 and I3 for VFs of NICs: claimed on the host for the VM that has them, and for no other."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.checker.seen import Row, Seen
from tests.checker.violation import Violation

KIND = "nic"


def violations(seen: Seen, _: Seen | None) -> Iterator[Violation]:
    """Claims against VMs, and VMs against claims."""
    yield from held_twice(seen)
    held = dict(_held(seen))
    claimed = {}
    for host in seen.hosts.values():
        for claim in host.claims:
            if claim["fleet"] == seen.store.fleet and claim["wanted"].get("kind") == KIND:
                claimed[host.name, claim["wanted"]["address"]] = claim
    for key, claim in claimed.items():
        where = "VF {1} on {0}".format(*key)
        row = held.get(key)
        if row is None:
            yield Violation("I3", "claim", f"{where} is for {claim['allocation']}")
        elif (claim["allocation"], claim["vm"]) != (row["id"], row["name"]):
            yield Violation("I2", "owner", f"{where} names {claim['vm']}, not {row['name']}")
    for key, row in held.items():
        if key[0] in seen.hosts and key not in claimed:
            yield Violation("I2", "unclaimed", "VF {1} of {2} on {0}".format(*key, row["name"]))


def held_twice(seen: Seen) -> Iterator[Violation]:
    """One VF is never two VMs'."""
    known: dict[tuple[str, str], Row] = {}
    for key, row in _held(seen):
        if key in known:
            both = f"{known[key]['name']} and {row['name']}"
            yield Violation("I1", "VF given twice", "{1} on {0}: {2}".format(*key, both))
        known[key] = row


def _held(seen: Seen) -> Iterator[tuple[tuple[str, str], Row]]:
    """By host and address; a store of an earlier schema has none."""
    for row in seen.store.rows["vm"]:
        there = row["deleted_at"] is None and row["state"] != "shelved"
        for address in json.loads(row.get("nic_functions") or "[]") if there else ():
            yield (row["host"], address), row
