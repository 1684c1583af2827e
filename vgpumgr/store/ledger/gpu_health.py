"""The health of GPUs in the ledger: advanced with each look, settled after a reset or a lift."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sqlalchemy import Connection, select, update

from vgpumgr.health import health_machine
from vgpumgr.health.health_machine import GpuLook
from vgpumgr.model.codec import dump, load
from vgpumgr.model.errors import NotFound
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.health import NO_EVIDENCE, HealthRecord
from vgpumgr.model.host import HostFacts
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.ledger.row_memo import MOST_TEXTS
from vgpumgr.store.schema import gpu


@lru_cache(maxsize=MOST_TEXTS)
def load_health(text: str) -> HealthRecord:
    """The record that :func:`dump_health` wrote."""
    return load(HealthRecord, text) if text else NO_EVIDENCE


def dump_health(record: HealthRecord) -> str:
    """A record as text; empty for a GPU that nothing was ever said of."""
    return "" if record == NO_EVIDENCE else dump(record)


def looked_at(before: HealthRecord, seen: GpuFacts, host: HostFacts, at: float) -> HealthRecord:
    """The health after this look at the GPU (``at`` in Unix seconds)."""
    lines = tuple(line for line in host.xids if line.address == seen.device)
    driver = host.versions.driver
    look = GpuLook(facts=seen, boot=host.boot_id, driver=driver, xids=lines, at=at)
    return health_machine.advance(before, look)


def health_told(
    gpu_id: str, host: str, device: str, before: HealthRecord, after: HealthRecord
) -> list[dict[str, object]]:
    """The record of the trail where the GPU has come to another state, or asks for another thing;
    none where it has not.
    """
    if (before.state, before.asks) == (after.state, after.asks):
        return []
    why = f"{after.why} (asks for: {after.asks})" if after.why else f"no longer: {before.why}"
    signals = ", ".join(sorted(each.signal for each in after.evidence))
    detail = f"was {before.state}; {why}" + (f"; evidence: {signals}" if signals else "")
    event = f"gpu.health-{after.state}"
    return [{"event": event, "gpu": gpu_id, "host": host, "device": device, "detail": detail}]


def was_reset(connection: Connection, stamp: Stamp, gpu_id: str) -> None:
    """The GPU was reset and read back: what Xids reported before is over. NotFound."""
    _change(connection, stamp, gpu_id, health_machine.reset)


def lift(connection: Connection, stamp: Stamp, gpu_id: str) -> bool:
    """Forget what was reported of the GPU, as a person asks; was there anything? NotFound."""
    return _change(connection, stamp, gpu_id, health_machine.lifted)


def _change(
    connection: Connection,
    stamp: Stamp,
    gpu_id: str,
    change: Callable[[HealthRecord, float], HealthRecord],
) -> bool:
    query = select(gpu.c.host, gpu.c.device, gpu.c.health, gpu.c.generation)
    row = connection.execute(query.where(gpu.c.id == gpu_id).with_for_update()).one_or_none()
    if row is None:
        raise NotFound(f"there is no GPU {gpu_id}", next="vgpumgr gpu list")
    before = load_health(row.health)
    after = change(before, stamp.at)
    if after == before:
        return False
    values = {"health": dump_health(after), "generation": row.generation + 1}
    connection.execute(update(gpu).where(gpu.c.id == gpu_id).values(values))
    write(connection, stamp, health_told(gpu_id, row.host, row.device, before, after))
    return True
