"""Fair shares: among requests of one class, the tenant that holds least is served first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from vgpumgr.placement.queue.line import Line
from vgpumgr.placement.queue.tenants import Tenants


def in_turn(line: Line, tenants: Tenants, now: float) -> Iterator[int]:
    """Seats worth asking. What a tenant gets on the way counts for who comes next."""
    for _, group in groupby(line.served(now), key=lambda each: each[0]):
        seats: dict[str, list[int]] = {}
        for _, seat in group:
            seats.setdefault(line.who[seat].vm.tenant, []).append(seat)
        if len(seats) == 1:
            yield from next(iter(seats.values()))
            continue
        waiting = {tenant: iter(found) for tenant, found in seats.items()}
        while waiting:
            tenant = min(waiting, key=lambda name: (tenants.share(name), name))
            found = next(waiting[tenant], None)
            if found is None:
                del waiting[tenant]
            else:
                yield found
