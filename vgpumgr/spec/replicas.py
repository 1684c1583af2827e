"""Names of replicas."""

from __future__ import annotations

MAX_REPLICAS = 10_000


def replica_names(name: str, count: int) -> list[str]:
    """``web`` × 3 → ``web-01`` … ``web-03``.

    Two digits whatever the count: a group that grows past 99 must not rename those it has.
    """
    return [f"{name}-{number:02d}" for number in range(1, count + 1)]
