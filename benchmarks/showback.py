"""CPU of reports on a long history: from rows in memory, and from the ledger's file to the answer.

A ledger with ``--gpus`` boards and ``--allocations`` past allocations of them within 30 days, a VM
each, of 50 tenants; the report is by tenant. JSON on stdout, CPU seconds of a process, the best of
``--times``.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import HostFacts, HostRecord, Versions
from vgpumgr.model.showback import MICROSECONDS, PriceBook, ReportBy, Span
from vgpumgr.showback.priced_usage import priced, summed
from vgpumgr.showback.usage_count import UsageCount
from vgpumgr.store import SqlLedger, open_ledger

BEGIN, LONG = 1_700_000_000, 30 * 86_400
UNITS, SIZES = 48, (4, 8, 12, 24, 48)
TENANTS = 50
BOOK = PriceBook(begins_at=0.0, currency="EUR", gpu_hour={"*": "2.40"})
SPAN = Span(BEGIN * MICROSECONDS, (BEGIN + LONG) * MICROSECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--allocations", type=int, default=1_000_000)
    parser.add_argument("--gpus", type=int, default=1000)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger.db")
        with ProcessPoolExecutor(1) as other:  # its memory is not the report's
            count = other.submit(lived, path, given.gpus, given.allocations).result()
        with closing(open_ledger(path)) as ledger:
            print(json.dumps(measured(ledger, count, given.gpus, given.times), indent=2))


def measured(ledger: SqlLedger, count: int, gpus: int, times: int) -> dict[str, Any]:
    read, history = best(times, lambda: ledger.usage_history(BEGIN, BEGIN + LONG))
    core, lines = best(times, lambda: summed(report(UsageCount(history, ReportBy.TENANT))))
    exact = sum((each.gpu_time for each in lines), Fraction())
    assert exact == gpus * LONG * MICROSECONDS, "lines do not add up to the fleet's capacity"
    return {
        "allocations": count,
        "lines": len(lines),
        "read_the_ledger_s": round(read, 2),
        "rows_to_report_s": round(core, 2),
        "sum_is_exact": True,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def report(count: UsageCount) -> Iterator[Any]:
    yield from priced(count.lines(SPAN), BOOK)


def best(times: int, work: Callable[[], Any]) -> tuple[float, Any]:
    least, found = float("inf"), None
    for _ in range(times):
        begun = time.process_time()
        found = work()
        least = min(least, time.process_time() - begun)
    return least, found


def lived(path: Path, gpus: int, allocations: int) -> int:
    """Make the ledger; how many allocations it has."""
    with closing(open_ledger(path, now=lambda: float(BEGIN))) as ledger:
        for number in range(0, gpus, 8):
            enrol(ledger, f"h{number:05}", min(8, gpus - number))
        known = [(each.id, each.host) for each in ledger.gpus()]
    with closing(sqlite3.connect(path)) as raw, raw:
        rows = list(held(known, allocations // gpus))
        raw.executemany(_VM, rows)
        raw.executemany(_ALLOCATION, rows)
    return len(rows)


def held(known: Sequence[tuple[str, str]], of_each: int) -> Iterator[dict[str, object]]:
    """Allocations by time; those of one slot never meet."""
    draw, found = random.Random(1), []
    for gpu, host in known:
        size = draw.choice(SIZES)
        lanes = UNITS // size
        for lane in range(lanes):
            slots = json.dumps(list(range(lane * size, (lane + 1) * size)), separators=(",", ":"))
            step = LONG / max(1, of_each // lanes)
            for number in range(of_each // lanes):
                since = BEGIN + (number + draw.random() / 2) * step
                until = since + draw.random() / 2 * step
                found.append((since, until, gpu, host, size, slots))
    for number, (since, until, gpu, host, size, slots) in enumerate(sorted(found)):
        yield {
            "id": f"{number:032x}",
            "name": f"vm-{number}",
            "host": host,
            "gpu": gpu,
            "profile": f"A40-{size}Q",
            "slots": slots,
            "since": since,
            "until": until,
            "tenant": f"tenant-{number % TENANTS}",
        }


def enrol(ledger: SqlLedger, name: str, gpus: int) -> None:
    ledger.add_host(HostRecord(name=name, address=f"root@{name}"))
    devices = [f"0000:{number:02x}:00.0" for number in range(gpus)]
    seen = tuple(
        GpuFacts(device=each, path=f"/sys/{each}", model="A40", uuid=f"GPU-{name}-{each}")
        for each in devices
    )
    versions = Versions(libvirt="9.0.0", qemu="7.2.0")
    facts = HostFacts(
        host=name, boot_id="b", hostname=name, versions=versions, cpus=64, memory_mib=1 << 19,
        iommu=True, kvm=True, gpus=seen,
    )  # fmt: skip
    ledger.observe(facts, dict.fromkeys(devices, UNITS), float(BEGIN))


_VM = """
INSERT INTO vm (id, name, host, state, running, generation, spec, cpus, volumes, created_at,
    deleted_at, tenant)
VALUES (:id, :name, :host, 'deleted', 0, 1, '{}', '[]', '[]', :since, :until, :tenant)
"""
_ALLOCATION = """
INSERT INTO allocation (id, vm_id, vm, host, gpu, profile, framework, device, slots, type_id,
    parent, companions, state, generation, created_at, released_at)
VALUES (:id, :id, :name, :host, :gpu, :profile, 'vfio-vf', :id, :slots, '', '', '[]', 'released', 1,
    :since, :until)
"""


if __name__ == "__main__":
    main()
