"""Names of replicas."""

from __future__ import annotations

MAX_REPLICAS = 10_000


def replica_names(name: str, count: int) -> list[str]:
    """``web`` × 3 → ``web-01`` … ``web-03``: zero-padded to the width of the count, at least 2."""
    width = max(2, len(str(count)))
    return [f"{name}-{number:0{width}d}" for number in range(1, count + 1)]
