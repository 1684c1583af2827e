"""I3 for images: a copy that lies on a host is in the store, and one that is there lies there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.checker.seen import HostSeen, Row, Seen
from tests.checker.violation import Violation


def violations(seen: Seen, _: Seen | None) -> Iterator[Violation]:
    """Copies by the name of their volumes, which carries the image's id."""
    images = {row["id"]: row for row in seen.store.rows.get("image", ())}
    copies = [r for r in seen.store.rows.get("image_copy", ()) if r["gone_at"] is None]
    kept = {(r["host"], r["pool"], _volume(images[r["image"]])): r for r in copies}
    for name, host in seen.hosts.items():
        yield from _strays(host, images.values(), {key for key in kept if key[0] == name})
    for (name, pool, volume), row in kept.items():
        if row["state"] != "there":
            yield Violation("I3", "image copy", f"{volume} on {name} is {row['state']}")
        elif name in seen.hosts and (pool, volume) not in seen.hosts[name].volumes:
            yield Violation("I3", "image copy", f"{volume} is not on {name}")


def _strays(
    host: HostSeen, images: Iterable[Row], kept: set[tuple[str, str, str]]
) -> Iterator[Violation]:
    names = {_volume(row) for row in images}
    for pool, volume in sorted(host.volumes):
        if volume in names and (host.name, pool, volume) not in kept:
            yield Violation("I3", "image copy", f"{pool}/{volume} on {host.name} is of no image")


def _volume(row: Row) -> str:
    return f"{row['name']}@{row['version']}-{row['id'][:8]}.{row['format']}"
